package nfsserver

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A mountProgram is MOUNT version 3.
type mountProgram struct{ *Server }

// ServeRPC handles one MOUNT call. RFC 1813, Section 5.2, requires an AUTH_SYS
// credential for some procedures. It would gain nothing here, because AUTH_NONE
// may use a mounted export too, so no call is refused for its flavor.
func (p mountProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	var args mount3.PathArgs
	switch c.Proc {
	case mount3.ProcMnt, mount3.ProcUmnt:
		args.Decode(&c.Args)
	case mount3.ProcDump, mount3.ProcUmntAll, mount3.ProcExport:
	default: // the RPC layer answers NULL
		return oncrpc.ErrProcUnavail
	}
	if err := c.Args.Done(); err != nil {
		return err
	}
	host := hostOf(c.Peer)
	switch c.Proc {
	case mount3.ProcMnt:
		res := p.mnt(ctx, c.Peer, string(args.Path))
		r.Head = res.AppendTo(r.Head)
	case mount3.ProcUmnt:
		p.mounts.remove(host, cleanPath(string(args.Path)))
	case mount3.ProcUmntAll:
		p.mounts.removeAll(host)
	case mount3.ProcDump:
		limit := min(c.MaxReply, p.mounts.size())
		r.Reserve(limit)
		r.Head = p.mounts.appendTo(r.Head, limit)
	case mount3.ProcExport:
		set := p.set.Load()
		limit := min(c.MaxReply, set.listed)
		r.Reserve(limit)
		r.Head = set.appendTo(r.Head, limit)
	}
	return nil
}

// flavors are the permitted credentials of NFS calls.
var flavors = []uint32{rpcmsg.AuthSys, rpcmsg.AuthNone}

// mnt is MNT (RFC 1813, Section 5.2.1) of an export or a directory below it.
func (p mountProgram) mnt(ctx context.Context, peer *oncrpc.Peer, name string) mount3.MntRes {
	name = cleanPath(name)
	e, rest, status := p.exportFor(ctx, peer, name)
	if status != mount3.OK {
		return mount3.MntRes{Status: status}
	}
	defer e.leave()
	worker, period := p.work(ctx, peer, e.source)
	if worker == nil { // as for ErrJukebox
		return mount3.MntRes{Status: mount3.ErrServerFault}
	}
	defer p.rest(e.source, worker, period)
	h, status := p.walk(ctx, e, rest)
	if status != mount3.OK {
		return mount3.MntRes{Status: status}
	}
	p.mounts.add(hostOf(peer), name)
	return mount3.MntRes{Handle: p.seal.appendHandle(new(mac), nil, e.id, &h), Flavors: flavors}
}

// cleanPath normalizes a path. It can resolve ".." before a file system is
// asked, because symbolic links are not followed here.
func cleanPath(name string) string {
	if !path.IsAbs(name) {
		return name // no export has such a path
	}
	return path.Clean(name)
}

// exportFor returns the export with the longest path that contains name, among
// the exports that peer may use, as knfsd does, and the rest of name below it.
// The caller must leave the export.
func (p mountProgram) exportFor(ctx context.Context, peer *oncrpc.Peer, name string) (e *export, rest string, status mount3.Status) {
	set := p.set.Load()
	status = mount3.ErrNoEnt
	for _, e := range set.above(name) {
		switch v := p.verdict(ctx, peer, set, e); v.status {
		case nfs3.OK:
			if !e.enter() {
				return p.exportFor(ctx, peer, name) // another set is current already
			}
			return e, strings.TrimPrefix(strings.TrimPrefix(name, e.path), "/"), mount3.OK
		case nfs3.ErrJukebox: // MOUNT has no status for it
			return nil, "", mount3.ErrServerFault
		default:
			status = mount3.ErrAcces
		}
	}
	return nil, "", status
}

// above returns the exports that contain a path, the longest path first.
func (set *exportSet) above(name string) (found []*export) {
	for _, e := range set.list {
		tail, ok := strings.CutPrefix(name, e.path)
		if ok && (tail == "" || tail[0] == '/' || e.path == "/") {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *export) int { return len(b.path) - len(a.path) })
	return found
}

// walk looks up a path, name by name, as the superuser: the export alone
// decides who may mount. A symbolic link on the way is not a directory, so no
// path leads out of the export.
func (p mountProgram) walk(ctx context.Context, e *export, rest string) (vfs.Handle, mount3.Status) {
	root := new(vfs.Cred)
	h := e.fs.Root()
	attr, err := e.fs.GetAttr(ctx, root, h)
	for name := range strings.SplitSeq(rest, "/") {
		if err != nil || name == "" || attr.Type != vfs.TypeDir {
			break
		}
		if status := dotsFound.check([]byte(name)); status != nfs3.OK {
			return h, mountStatus(status)
		}
		if h, _, _, err = e.fs.Lookup(ctx, root, h, name); err == nil {
			attr, err = e.fs.GetAttr(ctx, root, h)
		}
	}
	switch {
	case err != nil:
		status, known := statusOf(err)
		if !known {
			p.log.Warn("MOUNT has no status for the error of a file system", "export", e.path, "path", rest, "err", err)
		}
		return h, mountStatus(status)
	case attr.Type != vfs.TypeDir:
		return h, mount3.ErrNotDir
	}
	return h, mount3.OK
}

// mountStatus converts a status of NFS to one of MOUNT.
func mountStatus(status nfs3.Status) mount3.Status {
	switch status {
	case nfs3.ErrNoEnt, nfs3.ErrStale:
		return mount3.ErrNoEnt
	case nfs3.ErrPerm, nfs3.ErrAcces:
		return mount3.ErrAcces
	case nfs3.ErrNotDir, nfs3.ErrInval:
		return mount3.ErrNotDir
	case nfs3.ErrNameTooLong:
		return mount3.ErrNameTooLong
	default:
		return mount3.ErrIO
	}
}

// appendTo appends the results of EXPORT, as many entries as fit into limit
// bytes: the protocol cannot continue the list.
func (set *exportSet) appendTo(b []byte, limit int) []byte {
	var res mount3.ExportRes
	limit -= mount3.ListEnd
	for _, e := range set.list {
		if limit -= e.entry.Size(); limit < 0 {
			break
		}
		res.Exports = append(res.Exports, e.entry)
	}
	return res.AppendTo(b)
}

// hostOf returns the name of a client in DUMP.
func hostOf(p *oncrpc.Peer) string {
	if p == nil {
		return ""
	}
	return addrOf(p).String()
}
