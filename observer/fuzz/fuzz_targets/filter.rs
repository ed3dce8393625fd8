//! Any text as a filter: no panic, an error that can be shown, and a canonical form that means the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use observer::filter::Filter;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Filter::parse_str(&text) {
        Ok(filter) => {
            let again = Filter::parse_str(&filter.to_string());
            assert_eq!(again.as_ref(), Ok(&filter));
        }
        Err(error) => {
            assert!(text.get(error.at..error.at + error.len).is_some());
            assert!(!error.to_string().contains('\u{1b}'));
        }
    }
});
