package io.strongroom;

/**
 * Which snapshots stay: of each of the last so many periods in which there is one, the newest. It is about snapshots that a schedule took, or a
 * command as a precaution, and that have no tag; all others stay.
 */
public final class Retention {
    /** Keeps all. */
    public static final Retention EVERYTHING = new Retention(0xFFFF_FFFFL, 0, 0, 0, 0, 0, false);

    /** The last ones, whenever they were taken; with 2<sup>32</sup> - 1, all stay. */
    public final long last;
    /** Hours. */
    public final long hourly;
    /** Days, in UTC as all of these. */
    public final long daily;
    /** Weeks, which begin on Monday. */
    public final long weekly;
    /** Months. */
    public final long monthly;
    /** Years. */
    public final long yearly;
    /** Whether it is also about snapshots that have neither message nor tag. */
    public final boolean unnamed;

    /** Of each sort of period, so many. */
    public Retention(long last, long hourly, long daily, long weekly, long monthly, long yearly, boolean unnamed) {
        this.last = last;
        this.hourly = hourly;
        this.daily = daily;
        this.weekly = weekly;
        this.monthly = monthly;
        this.yearly = yearly;
        this.unnamed = unnamed;
    }

    Retention(Reader answer) {
        this(
                answer.number(),
                answer.number(),
                answer.number(),
                answer.number(),
                answer.number(),
                answer.number(),
                answer.flag());
    }

    /** As "0 24 30 0 12 0 scheduled": the numbers in their order, and which snapshots it is about. */
    @Override
    public String toString() {
        return last + " " + hourly + " " + daily + " " + weekly + " " + monthly + " " + yearly + (unnamed ? " unnamed" : " scheduled");
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Retention && toString().equals(other.toString());
    }

    @Override
    public int hashCode() {
        return toString().hashCode();
    }
}
