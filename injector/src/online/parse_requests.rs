//! What a plan says of requests to disks, taken apart.

use cluster::Area;
use toml::Spanned;

use super::parse::{Checked, Known, Name, RawFault, RawTrigger, Wrong, when, whose};
use super::plan::{Awaited, Selector, Trigger};
use super::requests::{RequestKind, RequestOf};

/// A request that is waited for, if one is.
pub(super) fn awaited_request(raw: &RawTrigger, known: &Known) -> Checked<Option<Awaited>> {
    let Some(request) = &raw.request else {
        return Ok(None);
    };
    let Some(file_system) = known.disk else {
        let what = "a request needs nodes with recorded disks: put disk = \"ext4\" (or another file \
                    system) at the top of the cluster file";
        return Err(Wrong(request.span(), what.into()));
    };
    let of = request_of(raw, *request.get_ref(), file_system)?;
    let on = whose(raw, known)?;
    if let (Some(node), Some(Selector::Node(name))) = (&raw.node, &on)
        && known.without_data.contains(&name.as_str())
    {
        return Err(Wrong(node.span(), format!("{name} has no disk")));
    }
    let when = when(raw);
    Ok(Some(Awaited::Request { of, on, when }))
}

fn request_of(raw: &RawTrigger, kind: RequestKind, file_system: &str) -> Checked<RequestOf> {
    if let Some(nth) = raw.nth.as_ref().filter(|nth| *nth.get_ref() == 0) {
        return Err(Wrong(nth.span(), "it is counted from 1 on".into()));
    }
    let area = raw.area.as_ref();
    if let Some(area) = area.filter(|_| kind == RequestKind::Flush) {
        let what = "a flush is of the whole disk: leave out `area`";
        return Err(Wrong(area.span(), what.into()));
    }
    Ok(RequestOf {
        kind,
        area: area.map(|area| area_of(area, file_system)).transpose()?,
        nth: raw.nth.as_ref().map_or(1, |nth| *nth.get_ref()),
    })
}

fn area_of(area: &Spanned<String>, file_system: &str) -> Checked<Area> {
    let known = Area::ALL.into_iter();
    if !["ext3", "ext4"].contains(&file_system) {
        let what = format!(
            "where {file_system} has what on a disk is not known: leave out `area`, or have disk = \"ext4\""
        );
        return Err(Wrong(area.span(), what));
    }
    let name = area.get_ref();
    known
        .clone()
        .find(|known| known.name() == name)
        .ok_or_else(|| {
            let known: Vec<_> = known.map(Area::name).collect();
            let what = format!("there is no area `{name}`: there are {}", known.join(", "));
            Wrong(area.span(), what)
        })
}

/// Refuses a request that would be held while processes are stopped or killed, which may wait for it.
pub(super) fn refuse_held_request(raw: &RawFault, at: &Trigger) -> Checked<()> {
    let name = *raw.fault.get_ref();
    let waits = matches!(name, Name::Kill | Name::Pause | Name::Restart);
    if waits && at.fires_at_a_request() {
        let what = "a process that waits for its disk neither stops nor ends, and the request is held until \
                    the fault is in place: have a power-loss, or give the request `delay_s`, with which it is \
                    not held";
        return Err(Wrong(raw.fault.span(), what.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::given::{cluster_of, plan_of};
    use super::super::plan::FaultPlan;

    const NODES: &str = "[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n[[nodes]]\nname = \"c\"\n\
                         command = \"sh\"\ndata = false\n[client]\ncommand = \"sh\"\n[probe]\n\
                         command = \"sh\"\nroles = [\"leader\"]\n";

    fn plan(disk: &str, at: &str, fault: &str) -> Result<FaultPlan, String> {
        let text = format!("[[faults]]\nat = {at}\nfault = \"{fault}\"\non = \"a\"\n");
        plan_of(&text, &cluster_of(&format!("{disk}{NODES}")))
    }

    #[test]
    fn a_request_is_read_again_as_it_was_printed() {
        for at in [
            "{ request = \"flush\" }",
            "{ request = \"write\", area = \"journal\", nth = 3, node = \"leader\", when = \"after\" }",
            "{ request = \"discard\", delay_s = 0.5 }",
            "{ lines = 1, then = { request = \"read\", area = \"data\" } }",
        ] {
            let read = plan("disk = \"ext4\"\n", at, "power-loss").expect(at);
            assert_eq!(read.faults[0].at.to_string(), at);
            assert!(read.needs_requests() && !read.needs_calls());
            assert_eq!(read.needs_roles(), at.contains("leader"));
        }
    }

    #[test]
    fn a_request_that_cannot_be_is_refused_where_it_is_said() {
        let on_ext4 = |at: &str| plan("disk = \"ext4\"\n", at, "power-loss").expect_err(at);
        let none = plan("", "{ request = \"flush\" }", "partition").expect_err("no disks");
        assert!(none.starts_with("p.toml:2:18: a request needs nodes with recorded disks"));
        let kind = on_ext4("{ request = \"trim\" }");
        assert!(
            kind.contains("unknown variant `trim`, expected one of `read`, `write`"),
            "{kind}"
        );
        assert_eq!(
            on_ext4("{ request = \"write\", area = \"log\" }"),
            "p.toml:2:34: there is no area `log`: there are journal, metadata, data"
        );
        let whole = on_ext4("{ request = \"flush\", area = \"data\" }");
        assert_eq!(
            whole,
            "p.toml:2:34: a flush is of the whole disk: leave out `area`"
        );
        let of_xfs = plan(
            "disk = \"xfs\"\n",
            "{ request = \"write\", area = \"data\" }",
            "power-loss",
        );
        let of_xfs = of_xfs.expect_err("unknown");
        assert!(of_xfs.starts_with("p.toml:2:34: where xfs has what on a disk is not known"));
        let zero = on_ext4("{ request = \"write\", nth = 0 }");
        assert_eq!(zero, "p.toml:2:33: it is counted from 1 on");
        assert_eq!(
            on_ext4("{ request = \"write\", node = \"c\" }"),
            "p.toml:2:34: c has no disk"
        );
        let path = on_ext4("{ request = \"write\", path = \"x\" }");
        assert!(path.ends_with("`path` is only for call"), "{path}");
        let area = on_ext4("{ call = \"write\", area = \"data\" }");
        assert!(area.ends_with("`area` is only for request"), "{area}");
        let all = on_ext4("{ all = [{ request = \"write\" }, { lines = 1 }] }");
        assert!(
            all.contains("a call or request in `all` cannot be held exactly there"),
            "{all}"
        );
    }

    #[test]
    fn a_process_that_waits_for_its_disk_is_not_to_be_stopped_while_that_is_held() {
        for fault in ["kill", "pause", "restart"] {
            let of = |at: &str| plan("disk = \"ext4\"\n", at, fault);
            let why = of("{ lines = 1, then = { request = \"flush\" } }").expect_err(fault);
            assert!(
                why.starts_with("p.toml:3:9: a process that waits for its disk"),
                "{why}"
            );
            assert!(of("{ request = \"flush\", delay_s = 0.1 }").is_ok());
            assert!(of("{ request = \"flush\", then = { lines = 1 } }").is_ok());
        }
    }
}
