//! What a measurement depends on: the processor, the cores, the libraries. Another machine needs another measurement.

use std::fs;

use serde::{Deserialize, Serialize};
use strongroom_crypto::providers;

/// Instructions that ciphers and hashes are built on; a virtual machine may lose some and keep its name.
const INSTRUCTIONS: &[&str] = &[
    "adx",
    "aes",
    "asimd",
    "avx",
    "avx2",
    "avx512bw",
    "avx512f",
    "avx512vl",
    "bmi2",
    "gfni",
    "pclmulqdq",
    "pmull",
    "sha2",
    "sha3",
    "sha512",
    "sha_ni",
    "sse4_1",
    "ssse3",
    "sve2",
    "vaes",
    "vpclmulqdq",
];

/// The lines of `/proc/cpuinfo` that tell one processor from another, on all architectures.
const FIELDS: &[&str] = &[
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "CPU implementer",
    "CPU part",
    "CPU variant",
    "CPU revision",
    "uarch",
    "isa",
];

/// What was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name, model and the instructions that matter.
    pub processor: String,
    /// How many this process may use at once.
    pub cores: usize,
    /// Every provider's library with its version.
    pub libraries: Vec<String>,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        Self {
            processor: processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            libraries: providers::libraries(),
        }
    }
}

/// The first processor of `/proc/cpuinfo`: `FIELDS`, then `INSTRUCTIONS`.
fn processor(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let named = |line: &&str| line.split(':').next().is_some_and(|at| at.trim() == name);
        let line = cpuinfo.lines().find(named)?;
        Some(line.split_once(':')?.1.trim())
    };
    let has: Vec<&str> = field("flags")
        .or(field("Features"))
        .unwrap_or_default()
        .split(' ')
        .collect();
    let fields = FIELDS.iter().filter_map(|name| Some((*name, field(name)?)));
    let fields = fields.map(|(name, value)| format!("{name} {value}"));
    let instructions = INSTRUCTIONS.iter().filter(|name| has.contains(name));
    std::iter::once(std::env::consts::ARCH.to_owned())
        .chain(fields)
        .chain(instructions.map(|name| (*name).to_owned()))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Some\nflags\t\t: fpu aes avx2\n\nprocessor\t: 1\nmodel\t\t: 86\n";

    #[test]
    fn a_processor_is_told_by_its_model_and_its_instructions() {
        let name = processor(TEXT);
        assert!(
            name.ends_with("vendor_id GenuineIntel, model 85, model name Some, aes, avx2"),
            "{name}"
        );
        assert_ne!(name, processor(&TEXT.replace(" avx2", "")));
        assert_ne!(name, processor(&TEXT.replace("85", "84")));
        assert_eq!(processor(""), std::env::consts::ARCH);
    }

    #[test]
    fn this_machine_is_the_same_twice_and_names_its_libraries() {
        let machine = Machine::here();
        assert_eq!(machine, Machine::here());
        assert!(machine.cores > 0);
        assert!(
            machine.libraries.iter().any(|name| name.contains("ring")),
            "{machine:?}"
        );
    }
}
