//! The entries that a window of time is read from: of the finest resolution there is for each moment.

use super::code::Code;
use super::entry::{Breaks, Bucket, Quantity, Raw, Stages};
use super::history::{History, WIDTHS, start};

/// An entry of any resolution.
#[derive(Clone, Copy)]
pub(super) enum Piece<'a> {
    Raw(&'a Raw),
    Bucket(&'a Bucket, u64),
}

impl Piece<'_> {
    pub fn is_sampled(&self) -> bool {
        !matches!(self, Self::Bucket(bucket, _) if !bucket.sampled)
    }

    pub fn from(&self) -> u64 {
        match self {
            Self::Raw(raw) => raw.time,
            Self::Bucket(bucket, width) => start(bucket, *width),
        }
    }

    /// The first moment after it.
    pub fn to(&self) -> u64 {
        match self {
            Self::Raw(raw) => raw.time,
            Self::Bucket(bucket, width) => start(bucket, *width).saturating_add(*width),
        }
    }

    pub fn before(&self) -> Breaks {
        match self {
            Self::Raw(raw) => raw.before(),
            Self::Bucket(bucket, _) => bucket.before,
        }
    }

    pub fn inside(&self) -> Breaks {
        match self {
            Self::Raw(_) => Breaks::default(),
            Self::Bucket(bucket, _) => bucket.inside,
        }
    }

    pub fn stages(&self) -> Stages {
        match self {
            Self::Raw(raw) => raw.stages(),
            Self::Bucket(bucket, _) => bucket.stages,
        }
    }

    pub fn get(&self, quantity: Quantity) -> [Code; 3] {
        match self {
            Self::Raw(raw) => [raw.values.get(quantity); 3],
            Self::Bucket(bucket, _) => bucket.get(quantity),
        }
    }
}

/// From this moment on (ns), the entries of this resolution are read: 0 = samples, then the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub resolution: usize,
    pub from: u64,
    pub to: u64,
}

impl History {
    /// What is read from where, the newest first. Regions meet at multiples of the coarser one's width, so that
    /// nothing is read twice.
    pub(super) fn regions(&self) -> Vec<Region> {
        let raw = (!self.raw.ring.is_empty()).then_some((0, self.raw.from, 0));
        let tiers = self.tiers.iter().enumerate();
        let tiers = tiers.filter(|(_, tier)| !tier.ring.is_empty());
        let tiers = tiers.map(|(k, tier)| (k + 1, tier.from, WIDTHS[k]));
        let all: Vec<_> = raw.into_iter().chain(tiers).collect();
        let mut regions = Vec::new();
        let mut to = u64::MAX;
        for (i, &(resolution, from, _)) in all.iter().enumerate() {
            let coarser = all[i + 1..].iter().find(|(_, reaches, _)| *reaches < from);
            let from = coarser.map_or(from, |(_, _, width)| {
                from.div_ceil(*width).saturating_mul(*width)
            });
            if from < to {
                regions.push(Region {
                    resolution,
                    from,
                    to,
                });
                to = from;
            }
        }
        regions
    }

    /// From when on samples are read.
    pub(super) fn raw_region(&self) -> u64 {
        let regions = self.regions();
        let raw = regions.first().filter(|r| r.resolution == 0);
        raw.map_or(u64::MAX, |r| r.from)
    }

    /// All entries that reach into `from` … `to`, and the one before these; oldest first.
    pub(super) fn pieces(&self, from: u64, to: u64) -> Vec<Piece<'_>> {
        let mut pieces: Vec<Piece> = Vec::new();
        for region in self.regions().into_iter().rev() {
            let (low, high) = (region.from, region.to.min(to));
            if region.resolution == 0 {
                let entries = self.raw.ring.from(|raw| raw.time < low);
                let entries = entries.take_while(|raw| raw.time < high);
                pieces.extend(entries.map(Piece::Raw));
            } else {
                let width = WIDTHS[region.resolution - 1];
                let ring = &self.tiers[region.resolution - 1].ring;
                let entries = ring.from(|b| start(b, width) < low);
                let entries = entries.take_while(|b| start(b, width) < high);
                pieces.extend(entries.map(|b| Piece::Bucket(b, width)));
            }
        }
        let first = pieces
            .iter()
            .position(|p| p.to().max(p.from().saturating_add(1)) > from);
        let before = &pieces[..first.unwrap_or(pieces.len())];
        let before = before.iter().rposition(Piece::is_sampled);
        pieces.split_off(before.or(first).unwrap_or(pieces.len()))
    }
}
