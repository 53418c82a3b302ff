// SPDX-License-Identifier: GPL-2.0

//! ServiceRecord: what ports offer, as long as their leases last (IBA "ServiceRecord").

use super::component::{
    matches,
    Components, //
};
use super::serve::{
    Answer,
    Found,
    Refusal, //
};
use super::{
    Agent,
    Request,
    Storage, //
};
use crate::sm::{
    self,
    Manager, //
};
use crate::time::{
    Duration,
    Instant, //
};
use wire::mad::sa::{
    status,
    Record,
    ServiceRecord, //
};
use wire::{
    Gid,
    PKey, //
};

/// What names a service.
const NAME: u64 = ServiceRecord::ID_MASK | ServiceRecord::GID | ServiceRecord::PKEY;

/// The components that a query may ask for: neither lease nor key.
#[rustfmt::skip]
const COMPONENTS: Components = &[
    (0, 64), (64, 128), (192, 16), (208, 0), (224, 0), (256, 0), (384, 512),
    // 16 of 8 bits
    (896, 8), (904, 8), (912, 8), (920, 8), (928, 8), (936, 8), (944, 8), (952, 8),
    (960, 8), (968, 8), (976, 8), (984, 8), (992, 8), (1000, 8), (1008, 8), (1016, 8),
    // 8 of 16 bits
    (1024, 16), (1040, 16), (1056, 16), (1072, 16), (1088, 16), (1104, 16), (1120, 16), (1136, 16),
    // 4 of 32 bits, 2 of 64 bits
    (1152, 32), (1184, 32), (1216, 32), (1248, 32), (1280, 64), (1344, 64),
];

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The index of no port.
const NONE: u32 = u32::MAX;

/// A service.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    record: ServiceRecord,
    used: bool,
    /// When it is forgotten.
    ends: Option<Instant>,
    /// Where the subnet manager has its port.
    port: u32,
}

impl Service {
    /// No service.
    pub const fn new() -> Self {
        Self {
            record: ServiceRecord {
                id: 0,
                gid: Gid::ZERO,
                pkey: PKey::INVALID,
                lease: 0,
                key: [0; 2],
                name: [0; 64],
                data: [0; 64],
            },
            used: false,
            ends: None,
            port: NONE,
        }
    }
}

impl Default for Service {
    fn default() -> Self {
        Self::new()
    }
}

/// The services.
pub(super) struct Services<S: Storage> {
    slots: S::Services,
}

impl<S: Storage> Services<S> {
    pub(super) const fn new(slots: S::Services) -> Self {
        Self { slots }
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(Service::new());
    }

    /// Forgets the services whose leases have ended.
    pub(super) fn expire(&mut self, now: Instant) {
        self.retain(|service| service.ends.is_none_or(|ends| ends > now));
    }

    /// Forgets the services whose ports have left the partition, and, with `remove`, of those that are gone.
    pub(super) fn prune<M: sm::Storage>(&mut self, manager: &Manager<M>, remove: bool) {
        self.retain(|service| {
            let port = manager.port_of_guid(service.record.gid.guid(), service.port);
            service.port = port.unwrap_or(NONE);
            port.map_or(!remove, |port| {
                manager.pkey_at(port, service.record.pkey).is_some()
            })
        });
    }

    fn retain(&mut self, mut keep: impl FnMut(&mut Service) -> bool) {
        for service in self.slots.iter_mut().filter(|service| service.used) {
            if !keep(service) {
                *service = Service::new();
            }
        }
    }

    /// When a lease ends next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.slots.iter().filter_map(|service| service.ends).min()
    }

    /// The place of the service with a name.
    fn find(&self, asked: &ServiceRecord) -> Option<usize> {
        self.slots.iter().position(|service| {
            let known = &service.record;
            let same = (known.id, known.gid, known.pkey) == (asked.id, asked.gid, asked.pkey);
            service.used && same
        })
    }

    /// The service in a place, if it is what a request asks for. Who is not trusted learns of those in his partitions.
    pub(super) fn look<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
        place: usize,
        trusted: bool,
    ) -> Found<ServiceRecord> {
        let Some(service) = self.slots.get(place) else {
            return Found::End;
        };
        if !service.used || !(trusted || request.shares(manager, service.record.pkey)) {
            return Found::Nothing;
        }
        let mut bytes = [0; ServiceRecord::SIZE];
        service.record.emit(&mut bytes);
        let mask = request.sa().component_mask();
        if matches(mask, COMPONENTS, request.sa().data(), &bytes) {
            Found::Record(told(&service.record))
        } else {
            Found::Nothing
        }
    }
}

/// What others are told of a service: not its key.
const fn told(record: &ServiceRecord) -> ServiceRecord {
    ServiceRecord {
        key: [0; 2],
        ..*record
    }
}

impl<S: Storage> Agent<S> {
    /// Set: to offer a service, or to change it, or to have a new lease.
    pub(super) fn register<M: sm::Storage>(
        &mut self,
        manager: &Manager<M>,
        request: &Request,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        let mask = request.sa().component_mask();
        let mut asked: ServiceRecord = request.sa().record();
        if mask & NAME != NAME {
            return Err(Refusal(status::INSUFFICIENT_COMPONENTS));
        }
        let port = manager
            .port_of_gid(asked.gid)
            .ok_or(Refusal(status::INVALID_GID))?;
        if manager.pkey_at(port, asked.pkey).is_none() {
            return Err(Refusal(status::REQUEST_INVALID));
        }
        if !request.shares(manager, asked.pkey) {
            return Err(Refusal(status::DENIED));
        }
        if mask & ServiceRecord::LEASE == 0 {
            asked.lease = ServiceRecord::FOR_EVER;
        }
        if mask & ServiceRecord::KEY == 0 {
            asked.key = [0; 2];
        }
        let place = self.services.find(&asked);
        if let Some(known) = place.and_then(|place| self.services.slots.get(place)) {
            if known.record.key != [0; 2] && known.record.key != asked.key {
                return Err(Refusal(status::DENIED));
            }
        }
        let slots = &mut self.services.slots;
        let place = place.or_else(|| slots.iter().position(|service| !service.used));
        let service = place
            .and_then(|place| slots.get_mut(place))
            .ok_or(Refusal(status::NO_RESOURCES))?;
        let lease = Duration::from_nanos(u64::from(asked.lease).saturating_mul(SECOND));
        *service = Service {
            record: asked,
            used: true,
            ends: (asked.lease != ServiceRecord::FOR_EVER).then_some(now.after(lease)),
            port,
        };
        Ok(Answer::of(&told(&asked)))
    }

    /// Delete: to offer a service no more.
    pub(super) fn deregister<M: sm::Storage>(
        &mut self,
        manager: &Manager<M>,
        request: &Request,
    ) -> Result<Answer, Refusal> {
        let asked: ServiceRecord = request.sa().record();
        if request.sa().component_mask() & NAME != NAME {
            return Err(Refusal(status::INSUFFICIENT_COMPONENTS));
        }
        if !request.shares(manager, asked.pkey) {
            return Err(Refusal(status::DENIED));
        }
        let place = self.services.find(&asked);
        let service = place
            .and_then(|place| self.services.slots.get_mut(place))
            .ok_or(Refusal(status::NO_RECORDS))?;
        if service.record.key != [0; 2] && service.record.key != asked.key {
            return Err(Refusal(status::DENIED));
        }
        let record = told(&service.record);
        *service = Service::new();
        Ok(Answer::of(&record))
    }
}
