package io.strongroom;

import java.io.IOException;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.UserPrincipal;
import java.nio.file.attribute.UserPrincipalLookupService;
import java.nio.file.attribute.UserPrincipalNotFoundException;

/** Owners and groups are numbers, because a vault moves between machines that have different names for them. */
abstract class Principal implements UserPrincipal {
    private static final long MAX = 0xffff_ffffL;

    private final long number;

    private Principal(long number) {
        this.number = number;
    }

    /** An owner. */
    static final class User extends Principal {
        User(long number) {
            super(number);
        }
    }

    /** A group. */
    static final class Group extends Principal implements GroupPrincipal {
        Group(long number) {
            super(number);
        }
    }

    /** Finds them by their numbers. */
    static final class Lookup extends UserPrincipalLookupService {
        @Override
        public UserPrincipal lookupPrincipalByName(String name) throws IOException {
            return new User(parse(name));
        }

        @Override
        public GroupPrincipal lookupPrincipalByGroupName(String name) throws IOException {
            return new Group(parse(name));
        }
    }

    /** The number of an owner or group, which may be one of the machine: those that Java calls by a number. */
    static int numberOf(java.security.Principal principal) throws IOException {
        if (principal instanceof Principal) {
            return (int) ((Principal) principal).number;
        }
        return (int) parse(principal.getName());
    }

    private static long parse(String name) throws UserPrincipalNotFoundException {
        try {
            long number = Long.parseLong(name);
            if (number >= 0 && number <= MAX) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            // As below.
        }
        throw new UserPrincipalNotFoundException(name);
    }

    @Override
    public String getName() {
        return Long.toString(number);
    }

    @Override
    public boolean equals(Object other) {
        return other != null && other.getClass() == getClass() && ((Principal) other).number == number;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(number);
    }

    @Override
    public String toString() {
        return getName();
    }
}
