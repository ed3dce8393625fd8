//! The matrices that come with the program. `observer lab matrix --print NAME` shows one, to be changed.

use super::Matrix;

/// A matrix by name.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    pub name: &'static str,
    pub text: &'static str,
}

pub const SHIPPED: [Shipped; 6] = [
    Shipped {
        name: "clean",
        text: include_str!("../matrices/clean.toml"),
    },
    Shipped {
        name: "shallow",
        text: include_str!("../matrices/shallow.toml"),
    },
    Shipped {
        name: "lossy",
        text: include_str!("../matrices/lossy.toml"),
    },
    Shipped {
        name: "long",
        text: include_str!("../matrices/long.toml"),
    },
    Shipped {
        name: "qdisc-sysctl",
        text: include_str!("../matrices/qdisc-sysctl.toml"),
    },
    Shipped {
        name: "verdicts",
        text: include_str!("../matrices/verdicts.toml"),
    },
];

impl Shipped {
    pub fn find(name: &str) -> Option<Self> {
        SHIPPED.into_iter().find(|shipped| shipped.name == name)
    }

    pub fn matrix(&self) -> Result<Matrix, super::Wrong> {
        Matrix::read(self.name, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_can_be_read_and_say_what_they_are() {
        for shipped in SHIPPED {
            let matrix = shipped
                .matrix()
                .unwrap_or_else(|wrong| panic!("{}: {wrong}", shipped.name));
            assert!(matrix.about.is_some(), "{}", shipped.name);
            assert_eq!(Shipped::find(shipped.name).unwrap().name, shipped.name);
        }
        assert!(Shipped::find("nosuch").is_none());
    }
}
