package nfsserver

import (
	"context"
	"path"
	"strings"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A mountProgram is MOUNT version 3.
type mountProgram struct{ *Server }

// ServeRPC handles one MOUNT call. RFC 1813, Section 5.2, requires an AUTH_SYS
// credential for some procedures. No call is refused for its flavour, because
// Linux's client sends AUTH_SYS, also to mount an export with Kerberos, and a file
// handle alone gives no access.
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
		res := p.mnt(ctx, c, string(args.Path))
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
		list, size := exportList(p.realm.Set().List())
		limit := min(c.MaxReply, size)
		r.Reserve(limit)
		r.Head = appendExports(r.Head, list, limit)
	}
	return nil
}

// mnt is MNT (RFC 1813, Section 5.2.1) of an export or a directory below it. The
// flavours are those of the export alone: AUTH_NONE among them would mean to
// Linux's client that the server takes any.
func (p mountProgram) mnt(ctx context.Context, c *oncrpc.Call, name string) mount3.MntRes {
	peer := c.Peer
	name = cleanPath(name)
	e, err := p.realm.Reach(ctx, peer, &c.Cred, name)
	switch {
	case err == realm.Later: // MOUNT has no status for it
		return mount3.MntRes{Status: mount3.ErrServerFault}
	case err != nil:
		return mount3.MntRes{Status: mount3.ErrAcces}
	case e.Exported == nil:
		return mount3.MntRes{Status: mount3.ErrNoEnt}
	}
	defer e.Leave()
	var h vfs.Handle
	var status mount3.Status
	if p.realm.Visit(ctx, peer, e.Exported, func() { h, status = p.walk(ctx, e.Exported, e.Rest) }) != nil {
		return mount3.MntRes{Status: mount3.ErrServerFault}
	}
	if status != mount3.OK {
		return mount3.MntRes{Status: status}
	}
	p.mounts.add(hostOf(peer), name)
	res := mount3.MntRes{Handle: p.realm.AppendHandle(nil, e.Exported, &h)}
	for _, f := range e.Flavors {
		res.Flavors = append(res.Flavors, uint32(f))
	}
	return res
}

// cleanPath normalizes a path. It can resolve ".." before a file system is
// asked, because symbolic links are not followed here.
func cleanPath(name string) string {
	if !path.IsAbs(name) {
		return name // no export has such a path
	}
	return path.Clean(name)
}

// walk looks up a path, name by name, as the superuser: the export alone
// decides who may mount. A symbolic link on the way is not a directory, so no
// path leads out of the export.
func (p mountProgram) walk(ctx context.Context, e *realm.Exported, rest string) (vfs.Handle, mount3.Status) {
	root := new(vfs.Cred)
	h := e.FS.Root()
	attr, err := e.FS.GetAttr(ctx, root, h)
	for name := range strings.SplitSeq(rest, "/") {
		if err != nil || name == "" || attr.Type != vfs.TypeDir {
			break
		}
		if status := dotsFound.check([]byte(name)); status != nfs3.OK {
			return h, mountStatus(status)
		}
		if h, _, _, err = e.FS.Lookup(ctx, root, h, name); err == nil {
			attr, err = e.FS.GetAttr(ctx, root, h)
		}
	}
	switch {
	case err != nil:
		status, known := statusOf(err)
		if !known {
			p.realm.Log().Warn("MOUNT has no status for the error of a file system", "export", e.Path, "path", rest, "err", err)
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

// exportList returns the entries of the results of EXPORT, and the size of all
// results in bytes.
func exportList(exported []*realm.Exported) (list []mount3.Export, size int) {
	size = mount3.ListEnd
	for _, e := range exported {
		entry := mount3.Export{Path: []byte(e.Path), Groups: groups(e.Clients)}
		size += entry.Size()
		list = append(list, entry)
	}
	return list, size
}

// groups returns the clients for the results of EXPORT; an empty list means
// everyone.
func groups(clients []exports.Client) (list [][]byte) {
	for _, c := range clients {
		if c.Host.Kind == exports.Any {
			return nil
		}
		list = append(list, []byte(c.Host.String()))
	}
	return list
}

// appendExports appends the results of EXPORT, as many entries as fit into
// limit bytes: the protocol cannot continue the list.
func appendExports(b []byte, list []mount3.Export, limit int) []byte {
	var res mount3.ExportRes
	limit -= mount3.ListEnd
	for _, e := range list {
		if limit -= e.Size(); limit < 0 {
			break
		}
		res.Exports = append(res.Exports, e)
	}
	return res.AppendTo(b)
}

// hostOf returns the name of a client in DUMP.
func hostOf(p *oncrpc.Peer) string {
	if p == nil {
		return ""
	}
	return p.Addr.Addr().Unmap().String()
}
