//! A matrix: what is crossed with what, out of a small file, and the runs that come of it in an order that favours no cell.
//! Paths, settings and lists are kept as the words of `observer lab run`, so that every run is a command that a person can repeat.

mod read;
mod shipped;

pub use shipped::{SHIPPED, Shipped};

/// No qdisc on the sender's device, in a matrix and in its tables.
pub const NO_QDISC: &str = "none";
/// The one set of settings of a matrix that names none.
pub const NO_SETTINGS: &str = "default";

/// What is crossed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    pub name: String,
    pub about: Option<String>,
    pub repetitions: u32,
    /// As `-t` and `--omit` take them.
    pub time: String,
    pub omit: String,
    pub seed: u64,
    /// In the order of the file: paths first, then settings, qdiscs, flows, algorithms.
    pub cells: Vec<Cell>,
}

/// What is the same in every repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub path: String,
    pub cc: String,
    pub qdisc: String,
    pub sysctl: String,
    pub flows: u16,
    /// For `observer lab run`.
    pub arguments: Vec<String>,
}

/// One repetition of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its place in [`Matrix::cells`].
    pub cell: usize,
    /// From 1.
    pub repetition: u32,
}

/// A matrix that makes no sense, for who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

impl Cell {
    /// What its files begin with.
    pub fn stem(&self) -> String {
        let flows = self.flows.to_string();
        let parts = [&self.path, &self.cc, &self.qdisc, &self.sysctl, &flows];
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || ".+-".contains(c) {
                c
            } else {
                '_'
            }
        };
        let parts = parts.map(|part| part.chars().map(plain).collect::<String>());
        parts.join(",")
    }

    /// For people.
    pub fn title(&self) -> String {
        let mut words = vec![self.path.clone(), self.cc.clone()];
        if self.qdisc != NO_QDISC {
            words.push(self.qdisc.clone());
        }
        if self.sysctl != NO_SETTINGS {
            words.push(self.sysctl.clone());
        }
        if self.flows != 1 {
            words.push(format!("{} flows", self.flows));
        }
        words.join(" ")
    }

    /// By a key of `--only`.
    pub fn value(&self, key: &str) -> Option<String> {
        match key {
            "path" => Some(self.path.clone()),
            "cc" => Some(self.cc.clone()),
            "qdisc" => Some(self.qdisc.clone()),
            "sysctl" => Some(self.sysctl.clone()),
            "flows" => Some(self.flows.to_string()),
            _ => None,
        }
    }
}

impl Matrix {
    /// Every cell once, then every cell again: what drifts in the course of hours falls on all alike. Within a repetition the
    /// order is drawn, by the seed, so that no cell always follows the same other.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::with_capacity(self.cells.len() * self.repetitions as usize);
        for repetition in 1..=self.repetitions {
            let mut cells: Vec<usize> = (0..self.cells.len()).collect();
            let seed = self.seed.wrapping_add(u64::from(repetition) << 32);
            fastrand::Rng::with_seed(seed).shuffle(&mut cells);
            runs.extend(cells.into_iter().map(|cell| Run { cell, repetition }));
        }
        runs
    }

    pub fn stem(&self, run: Run) -> String {
        format!("{},r{}", self.cells[run.cell].stem(), run.repetition)
    }

    /// All that `observer lab run` is told, but where to write. Repetitions differ in their seed, cells do not.
    pub fn arguments(&self, run: Run) -> Vec<String> {
        let cell = &self.cells[run.cell];
        let seed = self.seed.wrapping_add(u64::from(run.repetition - 1));
        let mut arguments = cell.arguments.clone();
        let mut flag =
            |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
        flag("--cc", &cell.cc);
        if cell.qdisc != NO_QDISC {
            flag("--qdisc", &cell.qdisc);
        }
        flag("--flows", &cell.flows.to_string());
        flag("--time", &self.time);
        flag("--omit", &self.omit);
        flag("--seed", &seed.to_string());
        for (key, value) in [
            ("matrix", self.name.as_str()),
            ("path", &cell.path),
            ("sysctl", &cell.sysctl),
            ("flows", &cell.flows.to_string()),
            ("repetition", &run.repetition.to_string()),
        ] {
            flag("--label", &format!("{key}={value}"));
        }
        arguments
    }

    /// Leaves only cells with one of the values named of each key.
    pub fn only(&mut self, wanted: &[(String, String)]) -> Result<(), Wrong> {
        for (key, value) in wanted {
            let known = |cell: &Cell| cell.value(key);
            if self.cells.iter().all(|cell| known(cell).is_none()) {
                return Err(Wrong(format!(
                    "--only {key}={value}: the keys are path, cc, qdisc, sysctl, flows"
                )));
            }
            if !self
                .cells
                .iter()
                .any(|cell| known(cell).as_ref() == Some(value))
            {
                let mut there: Vec<String> = self.cells.iter().filter_map(known).collect();
                there.sort();
                there.dedup();
                return Err(Wrong(format!(
                    "--only {key}={value}: there is {}",
                    there.join(", ")
                )));
            }
        }
        self.cells.retain(|cell| {
            wanted.iter().all(|(key, _)| {
                let mut same = wanted.iter().filter(|(other, _)| other == key);
                same.any(|(_, value)| cell.value(key).as_ref() == Some(value))
            })
        });
        if self.cells.is_empty() {
            return Err(Wrong("no cell has all that --only asks for".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Matrix {
        let text = r#"
            repetitions = 3
            time = "5s"
            cc = ["cubic", "bbr"]
            qdisc = ["none", "fq"]
            flows = [1, 4]
            [[path]]
            name = "a"
            rate = "10mbit"
            [[path]]
            name = "b"
            loss = "1%"
        "#;
        Matrix::read("test", text).unwrap()
    }

    #[test]
    fn every_cell_runs_as_often_as_every_other_at_every_moment() {
        let matrix = matrix();
        assert_eq!(matrix.cells.len(), 16);
        let runs = matrix.runs();
        assert_eq!(runs.len(), 48);
        for (block, repetition) in runs.chunks(16).zip(1..) {
            let mut cells: Vec<usize> = block.iter().map(|run| run.cell).collect();
            cells.sort_unstable();
            assert_eq!(cells, (0..16).collect::<Vec<_>>());
            assert!(block.iter().all(|run| run.repetition == repetition));
        }
        assert_ne!(
            runs[..16].iter().map(|run| run.cell).collect::<Vec<_>>(),
            runs[16..32].iter().map(|run| run.cell).collect::<Vec<_>>()
        );
        assert_eq!(runs, matrix.runs(), "the same at every start");
    }

    #[test]
    fn a_run_is_a_command() {
        let matrix = matrix();
        let run = Run {
            cell: 15,
            repetition: 2,
        };
        assert_eq!(matrix.stem(run), "b,bbr,fq,default,4,r2");
        let arguments = matrix.arguments(run).join(" ");
        assert_eq!(
            arguments,
            "--loss 1% --cc bbr --qdisc fq --flows 4 --time 5s --omit 0s --seed 2 --label matrix=test --label path=b \
             --label sysctl=default --label flows=4 --label repetition=2"
        );
        assert_eq!(matrix.cells[15].title(), "b bbr fq 4 flows");
    }

    #[test]
    fn only_some_cells() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut some = matrix();
        some.only(&[
            pair("cc", "bbr"),
            pair("path", "a"),
            pair("path", "b"),
            pair("flows", "1"),
        ])
        .unwrap();
        assert_eq!(some.cells.len(), 4);
        let told = matrix()
            .only(&[pair("cc", "vegas")])
            .unwrap_err()
            .to_string();
        assert!(told.contains("there is bbr, cubic"), "{told}");
        assert!(matrix().only(&[pair("colour", "red")]).is_err());
    }
}
