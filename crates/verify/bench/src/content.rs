//! Makes content that neither compresses nor repeats, at the speed of memory.

/// Bytes of random content that are used again and again, each time under new stamps.
const POOL_BYTES: usize = 16 << 20;
/// Every stretch of this length that a caller is given differs from every other.
const STAMPED_BYTES: usize = 4096;

/// A source of content: random bytes, in which each 4 KiB have a stamp that no other 4 KiB of any run have.
pub struct Content {
    pool: Vec<u8>,
    next: usize,
    random: u64,
}

impl Content {
    /// `seed`: another for each run, so that nothing repeats across runs either.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut content = Self {
            pool: vec![0; POOL_BYTES],
            next: 0,
            random: seed,
        };
        let mut pool = std::mem::take(&mut content.pool);
        for word in pool.chunks_exact_mut(8) {
            word.copy_from_slice(&content.random().to_le_bytes());
        }
        content.pool = pool;
        content
    }

    /// The next random number (SplitMix64).
    pub fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next `len` bytes, at most 16 MiB; costs a stamp of 16 bytes for each 4 KiB.
    pub fn take(&mut self, len: usize) -> &[u8] {
        assert!(len <= POOL_BYTES, "the pool has 16 MiB");
        if self.next + len > POOL_BYTES {
            self.next = 0;
        }
        let start = self.next;
        self.next += len.next_multiple_of(STAMPED_BYTES);
        for at in (start..start + len).step_by(STAMPED_BYTES) {
            let stamp = [self.random(), self.random()];
            let end = (at + 16).min(start + len);
            let bytes = [stamp[0].to_le_bytes(), stamp[1].to_le_bytes()].concat();
            self.pool[at..end].copy_from_slice(&bytes[..end - at]);
        }
        &self.pool[start..start + len]
    }

    /// `count` different numbers below `below`, in random order; fewer if there are no more.
    pub fn choose(&mut self, count: usize, below: u64) -> Vec<u64> {
        let mut chosen = std::collections::HashSet::new();
        let mut order = Vec::new();
        while order.len() < count && (order.len() as u64) < below {
            let number = self.random() % below;
            if chosen.insert(number) {
                order.push(number);
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_4_kib_repeat_even_after_the_pool_did() {
        let mut content = Content::new(1);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..20 {
            for page in content.take(1 << 20).chunks(4096) {
                assert!(seen.insert(page[..16].to_vec()));
            }
        }
        assert_eq!(content.take(5000).len(), 5000);
        assert_eq!(content.take(3).len(), 3);
    }

    #[test]
    fn chosen_numbers_differ_and_end_when_there_are_no_more() {
        let mut chosen = Content::new(2).choose(100, 10);
        chosen.sort_unstable();
        assert_eq!(chosen, (0..10).collect::<Vec<_>>());
    }
}
