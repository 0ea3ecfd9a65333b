//! The versions of the libraries in this build.

// `VERSIONS`, sorted: pairs of a crate's name and version, from the lock file; build.rs writes them.
include!(concat!(env!("OUT_DIR"), "/versions.rs"));

/// `name` with the version that this build was made with.
pub(super) fn of_crate(name: &str) -> String {
    let version = VERSIONS.iter().find(|(known, _)| *known == name);
    format!(
        "{name} {}",
        version.map_or("of unknown version", |(_, version)| *version)
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_library_has_a_version() {
        for provider in crate::providers::registry::all() {
            let library = provider.library();
            assert!(!library.contains("unknown"), "{library}");
            assert!(
                library.contains(|letter: char| letter.is_ascii_digit()),
                "{library}"
            );
        }
    }
}
