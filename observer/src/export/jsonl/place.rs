//! Keys of what the cgroup's path tells.

use serde::Serialize;

use crate::export::table::fields;
use crate::model::container::{self, Container, Name};

/// `container` and `unit`; absent where the path tells nothing.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct PlaceKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<ContainerKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
}
fields!(PlaceKeys: container, unit);

#[derive(Clone, Debug, Serialize)]
struct ContainerKeys {
    runtime: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
}
fields!(ContainerKeys: runtime, id, name, pod);

impl PlaceKeys {
    pub fn of(cgroup: Option<&str>) -> Self {
        let Some(cgroup) = cgroup else {
            return Self::default();
        };
        let place = container::place(cgroup);
        Self {
            container: place.container.map(ContainerKeys::from),
            unit: place.unit.map(Into::into),
        }
    }
}

impl From<Container<'_>> for ContainerKeys {
    fn from(container: Container) -> Self {
        let (id, name) = match container.name {
            Some(Name::Id(id)) => (Some(id.to_owned()), None),
            Some(Name::Name(name)) => (None, Some(name.into_owned())),
            None => (None, None),
        };
        Self {
            runtime: container.runtime,
            id,
            name,
            pod: container.pod.map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_does_not_tell_is_absent() {
        let keys = |path: Option<&str>| serde_json::to_value(PlaceKeys::of(path)).expect("JSON");
        assert_eq!(keys(None), serde_json::json!({}));
        assert_eq!(keys(Some("/")), serde_json::json!({}));
        assert_eq!(
            keys(Some("/lxc/web/ns/system.slice/nginx.service")),
            serde_json::json!({
                "container": {"runtime": "lxc", "name": "web"},
                "unit": "nginx.service",
            })
        );
        let id = "ab".repeat(32);
        let path = format!("/kubepods/pod01234567-89ab-cdef-0123-456789abcdef/{id}");
        assert_eq!(
            keys(Some(&path)),
            serde_json::json!({"container": {
                "runtime": "kubernetes", "id": id, "pod": "01234567-89ab-cdef-0123-456789abcdef",
            }})
        );
    }
}
