// SPDX-License-Identifier: GPL-2.0

//! PathRecord: how ports reach each other (IBA "PathRecord").

use super::component::selects;
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
    PathRecord, //
};
use wire::{
    Gid,
    Lid,
    Rate,
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

/// The ports that a request wants paths between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    sources: Lids,
    targets: Lids,
}

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
    /// The ports that a request wants paths between; a Get without a source means its own port.
    pub(super) fn ends<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
    ) -> Result<Ends, Refusal> {
        let asked: PathRecord = request.sa().record();
        let mask = request.sa().component_mask();
        let has = |bits: u64| mask & bits == bits;
        let partition = asked.pkey.is_valid() && asked.pkey.base() == self.config.pkey.base();
        let life = self.config.packet_life_time;
        let life_fits = selects(
            asked.packet_life_time_selector,
            asked.packet_life_time,
            life,
        );
        let possible = (!has(PathRecord::PKEY) || partition)
            && (!has(PathRecord::RAW_TRAFFIC) || !asked.raw_traffic)
            && (!has(PathRecord::SL) || asked.sl == Sl::new(0))
            && (!has(LIFE) || life_fits);
        if !possible {
            return Err(Refusal(status::NO_RECORDS));
        }
        let sgid = has(PathRecord::SGID).then_some(asked.sgid);
        let mut slid = has(PathRecord::SLID).then_some(asked.slid);
        if request.sa().header().method == method::GET && sgid.is_none() {
            slid = slid.or(Some(request.from.lid));
        }
        let dgid = has(PathRecord::DGID).then_some(asked.dgid);
        let dlid = has(PathRecord::DLID).then_some(asked.dlid);
        Ok(Ends {
            sources: end(manager, sgid, slid)?,
            targets: end(manager, dgid, dlid)?,
        })
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
        self.path_between(manager, request, lids)
            .map_or(Found::Nothing, Found::Record)
    }

    fn path_between<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
        (slid, dlid): (Lid, Lid),
    ) -> Option<PathRecord> {
        let asked: PathRecord = request.sa().record();
        let mask = request.sa().component_mask();
        let has = |bits: u64| mask & bits == bits;
        let (from, to) = (manager.port_of_lid(slid)?, manager.port_of_lid(dlid)?);
        // The way back may be another one, and is to be as good.
        let met = manager.walk(from, to)?.and(manager.walk(to, from)?);
        let wanted_rate = Rate::from_code(asked.rate);
        let fits = (!has(MTU) || selects(asked.mtu_selector, asked.mtu, met.mtu.code()))
            && (!has(RATE)
                || wanted_rate.is_some_and(|rate| selects(asked.rate_selector, rate, met.rate)));
        if !fits {
            return None;
        }
        let gid_of = |port| Some(manager.gid_of(manager.port_at(port)?.1));
        Some(PathRecord {
            service_id: if mask & PathRecord::SERVICE_ID != 0 {
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
            traffic_class: if has(PathRecord::TRAFFIC_CLASS) {
                asked.traffic_class
            } else {
                0
            },
            reversible: true,
            numb_path: 0,
            pkey: self.config.pkey,
            qos_class: 0,
            sl: Sl::new(0),
            mtu_selector: selector::EXACT,
            mtu: met.mtu.code(),
            rate_selector: selector::EXACT,
            rate: met.rate.code(),
            packet_life_time_selector: selector::EXACT,
            packet_life_time: self.config.packet_life_time,
            preference: 0,
        })
    }
}
