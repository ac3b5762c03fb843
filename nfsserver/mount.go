package nfsserver

import (
	"context"
	"path"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A mountProgram serves MOUNT version 3.
type mountProgram struct{ *Server }

// ServeRPC serves one MOUNT call. RFC 1813, Section 5.2, requires an AUTH_SYS credential for
// some procedures. No call is rejected for its flavor, because Linux's client sends AUTH_SYS
// even to mount an export with Kerberos, and the handle of an export's root gives no access.
// See lookupPath for the directories below it.
func (p mountProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	var args mount3.PathArgs
	switch c.Proc {
	case mount3.ProcMnt, mount3.ProcUmnt:
		args.Decode(&c.Args)
	case mount3.ProcDump, mount3.ProcUmntAll, mount3.ProcExport:
	default: // the RPC layer replies to NULL
		return oncrpc.ErrProcUnavail
	}
	if err := c.Args.Done(); err != nil {
		return err
	}
	host := clientHost(c.Peer)
	switch c.Proc {
	case mount3.ProcMnt:
		res := p.serveMnt(ctx, c, string(args.Path))
		r.Head = res.AppendTo(r.Head)
	case mount3.ProcUmnt:
		p.mounts.removeMount(host, cleanPath(string(args.Path)))
	case mount3.ProcUmntAll:
		p.mounts.removeAll(host)
	case mount3.ProcDump:
		limit := min(c.MaxReply, p.mounts.resultSize())
		r.Reserve(limit)
		r.Head = p.mounts.appendTo(r.Head, limit)
	case mount3.ProcExport:
		list, size := exportList(p.exports.Snapshot().List())
		limit := min(c.MaxReply, size)
		r.Reserve(limit)
		r.Head = appendExports(r.Head, list, limit)
	}
	return nil
}

// serveMnt implements MNT (RFC 1813, Section 5.2.1) for an export or a directory below it. It
// returns only the export's flavors: to Linux's client, AUTH_NONE among them would mean that
// the server accepts any.
func (p mountProgram) serveMnt(ctx context.Context, c *oncrpc.Call, name string) mount3.MntRes {
	peer := c.Peer
	name = cleanPath(name)
	e, err := p.exports.FindExport(ctx, peer, &c.Cred, name)
	switch {
	case err == exportset.Later: // MOUNT has no status for it
		return mount3.MntRes{Status: mount3.ErrServerFault}
	case err != nil:
		return mount3.MntRes{Status: mount3.ErrAcces}
	case e.Exported == nil:
		p.exports.Log().Warn("rejecting a mount: no export contains the path", "client", clientHost(peer), "path", name)
		return mount3.MntRes{Status: mount3.ErrNoEnt}
	}
	defer e.Leave()
	var h vfs.Handle
	var status mount3.Status
	if p.exports.RunWithPermit(ctx, peer, e.Exported, func() { h, status = p.lookupPath(ctx, &e) }) != nil {
		return mount3.MntRes{Status: mount3.ErrServerFault}
	}
	if status != mount3.OK {
		return mount3.MntRes{Status: status}
	}
	p.mounts.addMount(clientHost(peer), name)
	res := mount3.MntRes{Handle: p.exports.AppendHandle(nil, e.Exported, &h)}
	for _, f := range e.Flavors {
		res.Flavors = append(res.Flavors, uint32(f))
	}
	return res
}

// cleanPath normalizes a path. It can resolve ".." before a file system is called, because
// symbolic links are not followed here.
func cleanPath(name string) string {
	if !path.IsAbs(name) {
		return name // no export has such a path
	}
	return path.Clean(name)
}

// lookupPath looks up a path below an export, name by name, as its searcher: a handle gives
// access to an object whatever the directories above it permit. A symbolic link on the way is
// not a directory, so no path leads out of the export.
func (p mountProgram) lookupPath(ctx context.Context, e *exportset.FoundExport) (vfs.Handle, mount3.Status) {
	h := e.FS.Root()
	attr, err := e.FS.GetAttr(ctx, &e.Searcher, h)
	for name := range strings.SplitSeq(e.Rest, "/") {
		if err != nil || name == "" || attr.Type != vfs.TypeDir {
			break
		}
		if status := dotsFound.checkName([]byte(name)); status != nfs3.OK {
			return h, mountStatus(status)
		}
		if h, _, _, err = e.FS.Lookup(ctx, &e.Searcher, h, name); err == nil {
			attr, err = e.FS.GetAttr(ctx, &e.Searcher, h)
		}
	}
	switch {
	case err != nil:
		status, known := statusOf(err)
		if !known {
			p.exports.Log().Warn("file system error without a MOUNT status; replying MNT3ERR_IO", "export", e.Path, "path", e.Rest, "err", err)
		}
		return h, mountStatus(status)
	case attr.Type != vfs.TypeDir:
		return h, mount3.ErrNotDir
	}
	return h, mount3.OK
}

// mountStatus converts an NFS status to a MOUNT status.
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
	case nfs3.ErrJukebox: // MOUNT has no status for it
		return mount3.ErrServerFault
	default:
		return mount3.ErrIO
	}
}

// exportList returns the entries of EXPORT's results, and the size of all results in bytes.
func exportList(exported []*exportset.Exported) (list []mount3.Export, size int) {
	size = mount3.ListEnd
	for _, e := range exported {
		if e.ClientsUnknown() || e.IsSubmount() {
			continue
		}
		entry := mount3.Export{Path: []byte(e.Path), Groups: clientNames(e.Clients)}
		size += entry.Size()
		list = append(list, entry)
	}
	return list, size
}

// clientNames returns the clients for EXPORT's results; an empty list means every client.
func clientNames(clients []exports.Client) (list [][]byte) {
	for _, c := range clients {
		if c.Host.Kind == exports.Any {
			return nil
		}
		list = append(list, []byte(c.Host.String()))
	}
	return list
}

// appendExports appends EXPORT's results, with as many entries as fit into limit bytes: the
// protocol cannot continue the list.
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

// clientHost returns a client's name in DUMP.
func clientHost(p *oncrpc.Peer) string {
	if p == nil {
		return ""
	}
	return p.Addr.Addr().Unmap().String()
}
