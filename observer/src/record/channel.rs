//! The channels of a file: what kind of message each carries.

use super::proto;

/// One a kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Samples,
    Opened,
    Attributes,
    Retransmit,
    State,
    CaState,
    Closed,
    Owners,
    Host,
    Device,
    DeviceGone,
    Elsewhere,
    Gap,
    Counters,
    Tick,
    Note,
}

/// Channel, topic, message.
pub const CHANNELS: [(Channel, &str, &str); 16] = [
    (Channel::Samples, "/samples", "SamplePack"),
    (Channel::Opened, "/opened", "Opened"),
    (Channel::Attributes, "/attributes", "Attributes"),
    (Channel::Retransmit, "/retransmit", "Retransmit"),
    (Channel::State, "/state", "StateChange"),
    (Channel::CaState, "/ca_state", "CaStateChange"),
    (Channel::Closed, "/closed", "Closed"),
    (Channel::Owners, "/owners", "Owners"),
    (Channel::Host, "/host", "Host"),
    (Channel::Device, "/device", "Device"),
    (Channel::DeviceGone, "/device_gone", "DeviceGone"),
    (Channel::Elsewhere, "/elsewhere", "Elsewhere"),
    (Channel::Gap, "/gap", "Gap"),
    (Channel::Counters, "/counters", "Counters"),
    (Channel::Tick, "/tick", "Tick"),
    (Channel::Note, "/note", "Note"),
];

/// Package of the messages.
pub const PACKAGE: &str = "observer.v1";

impl Channel {
    /// The channel of a topic; `None` = of a later version.
    pub fn of_topic(topic: &str) -> Option<Self> {
        CHANNELS
            .iter()
            .find(|(_, known, _)| *known == topic)
            .map(|(channel, ..)| *channel)
    }
}

/// The schema of a message, as it goes into the file.
pub fn schema(message: &str) -> &'static [u8] {
    proto::SCHEMAS
        .iter()
        .find(|(name, _)| *name == message)
        .map_or(&[], |(_, schema)| schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_has_its_schema_and_its_place() {
        for (at, (channel, topic, message)) in CHANNELS.iter().enumerate() {
            assert!(!schema(message).is_empty(), "{message}");
            assert_eq!(Channel::of_topic(topic), Some(*channel));
            assert_eq!(*channel as usize, at, "{topic}");
        }
    }
}
