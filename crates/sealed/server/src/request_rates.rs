//! Bounds how many requests a second somebody makes.
//!
//! Takes   who makes a request, and when
//! Gives   nothing, or a refusal
//! Never   keeps more than `CALLERS_MAX` callers in memory, or refuses one of them for the requests of another
//!
//! A caller may make as many requests at once as are due in `REQUESTS_BURST`, then the allowed number per second. An instance counts only
//! what it answers itself. Only callers without a valid token are told apart by their network address: behind a proxy all clients share one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use strongroom_remote::protocol::Refusal;

use crate::limits::{CALLERS_MAX, CALLERS_SWEPT, REQUESTS_BURST};

/// The upper half of an address of IPv6; the lower one is up to whoever has the network.
const NETWORK: u128 = u128::MAX << 64;

/// Somebody who makes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// The devices of an account.
    Account(i64),
    /// All who have an address of an inbox of that account.
    Depositors(i64),
    /// Whoever is there, and shows no valid token.
    Address(IpAddr),
}

impl Caller {
    /// Whoever is at that address.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & NETWORK).into(),
            four => four,
        })
    }
}

/// The requests of all callers.
#[derive(Debug)]
pub(crate) struct RequestRates {
    /// For how long one request makes its caller busy; `None` if there is no bound.
    one: Option<Duration>,
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    busy_until: HashMap<Caller, Instant>,
    /// When those were removed last that are not busy.
    swept: Option<Instant>,
}

impl RequestRates {
    /// So many requests a second of each caller; 0 for no bound.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            one: (per_second > 0).then(|| Duration::from_secs(1) / per_second),
            callers: Mutex::default(),
        }
    }

    /// Counts a request that comes at `now`.
    ///
    /// # Errors
    /// `TooFast`: then it does not count.
    pub(crate) fn take(&self, caller: Caller, now: Instant) -> Result<(), Refusal> {
        let Some(one) = self.one else {
            return Ok(());
        };
        let mut callers = self.callers.lock();
        if !callers.has_room_for(caller, now) {
            return Ok(());
        }
        let until = callers.busy_until.entry(caller).or_insert(now);
        let after = now.max(*until) + one;
        if after > now + REQUESTS_BURST {
            return Err(Refusal::TooFast);
        }
        *until = after;
        Ok(())
    }
}

impl Callers {
    /// Whether the requests of that caller can be counted.
    fn has_room_for(&mut self, caller: Caller, now: Instant) -> bool {
        if self.busy_until.len() < CALLERS_MAX || self.busy_until.contains_key(&caller) {
            return true;
        }
        // All are looked at: not with each request.
        if self.swept.is_none_or(|swept| now >= swept + CALLERS_SWEPT) {
            self.swept = Some(now);
            self.busy_until.retain(|_, until| now < *until);
        }
        self.busy_until.len() < CALLERS_MAX
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_caller_makes_the_requests_of_a_burst_at_once_and_then_so_many_a_second() {
        let (rates, now) = (RequestRates::new(10), Instant::now());
        let (one, other) = (Caller::Account(1), Caller::Depositors(1));
        let burst = 10 * REQUESTS_BURST.as_secs();
        for _ in 0..burst {
            assert_eq!(rates.take(one, now), Ok(()));
        }
        let just = now + Duration::from_millis(99);
        for at in [now, just] {
            assert_eq!(rates.take(one, at), Err(Refusal::TooFast));
        }
        // What was refused did not count, and nobody else is refused for it.
        let then = now + Duration::from_millis(100);
        assert_eq!(rates.take(one, then), Ok(()));
        assert_eq!(rates.take(one, then), Err(Refusal::TooFast));
        assert_eq!(rates.take(other, now), Ok(()));
        let rested = then + REQUESTS_BURST;
        for _ in 0..burst {
            assert_eq!(rates.take(one, rested), Ok(()));
        }
        assert_eq!(rates.take(one, rested), Err(Refusal::TooFast));
        let unbounded = RequestRates::new(0);
        for _ in 0..2 * burst {
            assert_eq!(unbounded.take(one, now), Ok(()));
        }
    }

    /// Goal: whoever comes from ever other addresses fills no memory, and keeps nobody from being counted for longer than they are busy.
    #[test]
    fn callers_are_bounded_and_go_once_they_rest() {
        let (rates, now) = (RequestRates::new(1), Instant::now());
        for number in 0..CALLERS_MAX + 9 {
            let caller = Caller::Account(i64::try_from(number).unwrap());
            assert_eq!(rates.take(caller, now), Ok(()));
        }
        let count = || rates.callers.lock().busy_until.len();
        assert_eq!(count(), CALLERS_MAX);
        // One that is known is counted all the same.
        for _ in 1..REQUESTS_BURST.as_secs() {
            assert_eq!(rates.take(Caller::Account(0), now), Ok(()));
        }
        let refused = rates.take(Caller::Account(0), now);
        assert_eq!(refused, Err(Refusal::TooFast));
        let rested = now + Duration::from_secs(2);
        assert_eq!(rates.take(Caller::Account(-1), rested), Ok(()));
        assert_eq!(count(), 2);
    }

    #[test]
    fn an_address_is_one_of_ipv4_or_a_network_of_ipv6() {
        let at = |text: &str| Caller::at(text.parse().unwrap());
        assert_eq!(at("192.0.2.1"), at("::ffff:192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1:2:3"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
    }
}
