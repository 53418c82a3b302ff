// SPDX-License-Identifier: GPL-2.0

//! PathRecord and MultiPathRecord: how ports reach each other (IBA "PathRecord", "MultiPathRecord").

use super::component::{
    selects,
    selects_rate, //
};
use super::serve::{
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
use wire::mad::method;
use wire::mad::sa::{
    selector,
    status,
    MultiPathRecord,
    PathRecord,
    Record, //
};
use wire::{
    Gid,
    Lid,
    Sl, //
};

const MTU: u64 = PathRecord::MTU_SELECTOR | PathRecord::MTU;
const RATE: u64 = PathRecord::RATE_SELECTOR | PathRecord::RATE;
const LIFE: u64 = PathRecord::PACKET_LIFE_TIME_SELECTOR | PathRecord::PACKET_LIFE_TIME;

/// LIDs in a row.
#[derive(Clone, Copy, Debug)]
struct Lids {
    first: u16,
    count: u16,
}

impl Lids {
    const fn one(lid: Lid) -> Self {
        Self {
            first: lid.get(),
            count: 1,
        }
    }

    fn nth(self, n: usize) -> Lid {
        Lid::new(self.first.saturating_add(n as u16))
    }
}

/// The ports that a PathRecord wants paths between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    sources: Lids,
    targets: Lids,
}

/// The pairs of ports that a MultiPathRecord wants paths between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs {
    lids: [Lid; MultiPathRecord::MAX_GIDS],
    sources: usize,
    targets: usize,
    order: Order,
    /// The largest number of paths to tell.
    pub(super) limit: usize,
}

/// The order of pairs.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Source by source.
    Rows,
    /// Of two sources and two targets: first two pairs that have no port in common.
    Straight,
    /// The other two such pairs first.
    Crossed,
}

impl Pairs {
    /// The ports of the pair in a place.
    fn pair(&self, place: usize) -> Option<(Lid, Lid)> {
        let place = match self.order {
            Order::Rows => place,
            Order::Straight => *[0, 3, 1, 2].get(place)?,
            Order::Crossed => *[1, 2, 0, 3].get(place)?,
        };
        let source = place.checked_div(self.targets)?;
        let target = place.checked_rem(self.targets)?;
        let target = self.sources.saturating_add(target);
        let sources = self.lids.get(..self.sources)?;
        Some((*sources.get(source)?, *self.lids.get(target)?))
    }
}

/// What a request wants of each path: components of a PathRecord, and which of them count.
struct Wish {
    asked: PathRecord,
    mask: u64,
}

impl Wish {
    fn of(request: &Request) -> Self {
        let mask = request.sa().component_mask();
        if request.sa().header().attr_id != MultiPathRecord::ID {
            return Self {
                asked: request.sa().record(),
                mask,
            };
        }
        let multi: MultiPathRecord = request.sa().record();
        let asked = PathRecord {
            service_id: multi.service_id(),
            raw_traffic: multi.raw_traffic,
            traffic_class: multi.traffic_class,
            pkey: multi.pkey,
            sl: multi.sl,
            mtu_selector: multi.mtu_selector,
            mtu: multi.mtu,
            rate_selector: multi.rate_selector,
            rate: multi.rate,
            packet_life_time_selector: multi.packet_life_time_selector,
            packet_life_time: multi.packet_life_time,
            ..PathRecord::default()
        };
        let pairs = SAME.iter().filter(|(_, theirs)| mask & theirs == *theirs);
        Self {
            asked,
            mask: pairs.fold(0, |mask, (ours, _)| mask | ours),
        }
    }

    /// Whether all components with these bits count.
    const fn has(&self, bits: u64) -> bool {
        self.mask & bits == bits
    }
}

/// Components of a PathRecord that a MultiPathRecord has too, and their bits there.
const SAME: [(u64, u64); 11] = [
    (PathRecord::SERVICE_ID, MultiPathRecord::SERVICE_ID),
    (PathRecord::RAW_TRAFFIC, MultiPathRecord::RAW_TRAFFIC),
    (PathRecord::TRAFFIC_CLASS, MultiPathRecord::TRAFFIC_CLASS),
    (PathRecord::PKEY, MultiPathRecord::PKEY),
    (PathRecord::SL, MultiPathRecord::SL),
    (PathRecord::MTU_SELECTOR, MultiPathRecord::MTU_SELECTOR),
    (PathRecord::MTU, MultiPathRecord::MTU),
    (PathRecord::RATE_SELECTOR, MultiPathRecord::RATE_SELECTOR),
    (PathRecord::RATE, MultiPathRecord::RATE),
    (
        PathRecord::PACKET_LIFE_TIME_SELECTOR,
        MultiPathRecord::PACKET_LIFE_TIME_SELECTOR,
    ),
    (
        PathRecord::PACKET_LIFE_TIME,
        MultiPathRecord::PACKET_LIFE_TIME,
    ),
];

/// The ports at one end, by GID, by LID, by both, or all.
fn end<M: sm::Storage>(
    manager: &Manager<M>,
    gid: Option<Gid>,
    lid: Option<Lid>,
) -> Result<Lids, Refusal> {
    const NO_RECORDS: Refusal = Refusal(status::NO_RECORDS);
    let by_gid = match gid {
        Some(gid) => {
            let port = manager.port_of_gid(gid);
            let port = port.ok_or(Refusal(status::INVALID_GID))?;
            Some(manager.port_at(port).ok_or(NO_RECORDS)?.1.lid())
        }
        None => None,
    };
    match (by_gid, lid) {
        (Some(known), Some(asked)) if known != asked => Err(NO_RECORDS),
        (Some(lid), _) => Ok(Lids::one(lid)),
        (None, Some(lid)) => {
            manager.port_of_lid(lid).ok_or(NO_RECORDS)?;
            Ok(Lids::one(lid))
        }
        (None, None) => Ok(Lids {
            first: 1,
            count: manager.top_lid().get(),
        }),
    }
}

impl<S: Storage> Agent<S> {
    /// Whether any path can be what is wished.
    fn is_possible(&self, wish: &Wish) -> bool {
        let asked = &wish.asked;
        let life_fits = selects(
            asked.packet_life_time_selector,
            asked.packet_life_time,
            self.config.packet_life_time,
        );
        (!wish.has(PathRecord::RAW_TRAFFIC) || !asked.raw_traffic)
            && (!wish.has(PathRecord::SL) || asked.sl == Sl::new(0))
            && (!wish.has(LIFE) || life_fits)
    }

    /// The ports that a request wants paths between; a Get without a source means its own port.
    pub(super) fn ends<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
    ) -> Result<Ends, Refusal> {
        let wish = Wish::of(request);
        if !self.is_possible(&wish) {
            return Err(Refusal(status::NO_RECORDS));
        }
        let asked = &wish.asked;
        let sgid = wish.has(PathRecord::SGID).then_some(asked.sgid);
        let mut slid = wish.has(PathRecord::SLID).then_some(asked.slid);
        if request.sa().header().method == method::GET && sgid.is_none() {
            slid = slid.or(Some(request.from.lid));
        }
        let dgid = wish.has(PathRecord::DGID).then_some(asked.dgid);
        let dlid = wish.has(PathRecord::DLID).then_some(asked.dlid);
        Ok(Ends {
            sources: end(manager, sgid, slid)?,
            targets: end(manager, dgid, dlid)?,
        })
    }

    /// The pairs of ports that a MultiPathRecord wants paths between.
    pub(super) fn pairs<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
    ) -> Result<Pairs, Refusal> {
        const COUNTS: u64 = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
        let asked: MultiPathRecord = request.sa().record();
        let mask = request.sa().component_mask();
        // A request is at most a segment long.
        if !request.is_segment() {
            return Err(Refusal(status::REQUEST_INVALID));
        }
        if mask & COUNTS != COUNTS {
            return Err(Refusal(status::INSUFFICIENT_COMPONENTS));
        }
        let (sources, targets) = (asked.sgid_count.into(), asked.dgid_count.into());
        let mut lids = [Lid::NONE; MultiPathRecord::MAX_GIDS];
        let wanted = lids.get_mut(..usize::saturating_add(sources, targets));
        if sources == 0 || targets == 0 {
            return Err(Refusal(status::REQUEST_INVALID));
        }
        let wanted = wanted.ok_or(Refusal(status::REQUEST_INVALID))?;
        for (place, lid) in (0..).zip(wanted) {
            let gid = MultiPathRecord::gid(request.sa().data(), place);
            let port = gid.and_then(|gid| manager.port_of_gid(gid));
            let port = port.and_then(|port| manager.port_at(port));
            *lid = port.ok_or(Refusal(status::INVALID_GID))?.1.lid();
        }
        let mut limit = usize::MAX;
        if mask & MultiPathRecord::NUMB_PATH != 0 {
            limit = asked.numb_path.into();
        }
        if !self.is_possible(&Wish::of(request)) {
            limit = 0;
        }
        let mut pairs = Pairs {
            lids,
            sources,
            targets,
            order: Order::Rows,
            limit,
        };
        if (sources, targets, limit) == (2, 2, 2) {
            pairs.order = self.independent(manager, request, &pairs);
        }
        Ok(pairs)
    }

    /// For a path and an alternate one: which two of four pairs to take. More paths are better, then shorter ones.
    fn independent<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
        pairs: &Pairs,
    ) -> Order {
        let wish = Wish::of(request);
        let cost = |places: [usize; 2]| {
            let paths = places.map(|place| {
                let lids = pairs.pair(place)?;
                Some(self.path_between(manager, request, &wish, lids)?.1)
            });
            let hops = paths.into_iter().flatten();
            let hops = hops.fold(0, u32::saturating_add);
            (paths.contains(&None), hops)
        };
        if cost([1, 2]) < cost([0, 3]) {
            Order::Crossed
        } else {
            Order::Straight
        }
    }

    /// The path between the pair of ports in a place.
    pub(super) fn path<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
        ends: Ends,
        place: usize,
    ) -> Found<PathRecord> {
        let targets = usize::from(ends.targets.count);
        let source = match place.checked_div(targets) {
            Some(source) if source < usize::from(ends.sources.count) => source,
            _ => return Found::End,
        };
        let target = place.checked_rem(targets).unwrap_or_default();
        let lids = (ends.sources.nth(source), ends.targets.nth(target));
        if manager.port_of_lid(lids.0).is_none() {
            // Nor is there anything in the rest of the row.
            return Found::NothingBefore(place.saturating_sub(target).saturating_add(targets));
        }
        self.path_between(manager, request, &Wish::of(request), lids)
            .map_or(Found::Nothing, |(path, _)| Found::Record(path))
    }

    /// The same for a MultiPathRecord.
    pub(super) fn path_of_pair<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
        pairs: &Pairs,
        place: usize,
    ) -> Found<PathRecord> {
        let Some(lids) = pairs.pair(place) else {
            return Found::End;
        };
        self.path_between(manager, request, &Wish::of(request), lids)
            .map_or(Found::Nothing, |(path, _)| Found::Record(path))
    }

    /// The path between two ports, if it is as wished and in a partition that the requester may learn of, and the hops of
    /// it there and back.
    fn path_between<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
        wish: &Wish,
        (slid, dlid): (Lid, Lid),
    ) -> Option<(PathRecord, u32)> {
        let asked = &wish.asked;
        let (from, to) = (manager.port_of_lid(slid)?, manager.port_of_lid(dlid)?);
        let wanted = wish.has(PathRecord::PKEY).then_some(asked.pkey);
        let witness = if self.is_trusted(request) {
            None
        } else {
            Some(request.port(manager)?)
        };
        let pkey = manager.common_partition((from, to), witness, wanted)?;
        // The way back may be another one, and is to be as good.
        let met = manager.walk(from, to)?.and(manager.walk(to, from)?);
        let fits = (!wish.has(MTU) || selects(asked.mtu_selector, asked.mtu, met.mtu.code()))
            && (!wish.has(RATE) || selects_rate(asked.rate_selector, asked.rate, Some(met.rate)));
        if !fits {
            return None;
        }
        let gid_of = |port| Some(manager.gid_of(manager.port_at(port)?.1));
        let path = PathRecord {
            service_id: if wish.mask & PathRecord::SERVICE_ID != 0 {
                asked.service_id
            } else {
                0
            },
            dgid: gid_of(to)?,
            sgid: gid_of(from)?,
            dlid,
            slid,
            raw_traffic: false,
            flow_label: 0,
            hop_limit: 0,
            traffic_class: if wish.has(PathRecord::TRAFFIC_CLASS) {
                asked.traffic_class
            } else {
                0
            },
            reversible: true,
            numb_path: 0,
            pkey,
            qos_class: 0,
            sl: Sl::new(0),
            mtu_selector: selector::EXACT,
            mtu: met.mtu.code(),
            rate_selector: selector::EXACT,
            rate: met.rate.code(),
            packet_life_time_selector: selector::EXACT,
            packet_life_time: self.config.packet_life_time,
            preference: 0,
        };
        Some((path, met.hops))
    }
}
