package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// serveFSStat implements FSSTAT (RFC 1813, Section 3.3.18).
func serveFSStat(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.HandleArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.FSStatRes
	h, status := q.openToMount(ctx, a.Object)
	if res.Status = status; status == nfs3.OK {
		st, attr, err := q.Export.FS.StatFS(ctx, &q.Cred, h)
		res = nfs3.FSStatRes{
			Status:     q.toStatus(err),
			Attr:       q.postAttr(&h, &attr),
			TotalBytes: st.TotalBytes, FreeBytes: st.FreeBytes, AvailBytes: st.AvailBytes,
			TotalFiles: st.TotalFiles, FreeFiles: st.FreeFiles, AvailFiles: st.AvailFiles,
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// serveFSInfo implements FSINFO (RFC 1813, Section 3.3.19). A client that may not use the
// export, or not with the call's flavor, learns this server's limits, but nothing about the
// file system.
func serveFSInfo(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.HandleArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.FSInfoRes
	h, status := q.openToMount(ctx, a.Object)
	switch status {
	case nfs3.OK:
		if err := q.Export.TriggerAutomount(); err != nil { // the client begins to use the file system
			res.Status = q.toStatus(err)
			break
		}
		attr, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
		res = q.serverInfo()
		if res.Status = q.toStatus(err); err == nil {
			res.Attr = q.postAttr(&h, &vfs.MaybeAttr{OK: true, Attr: attr})
		}
	case nfs3.ErrAcces:
		res, q.isTooWeak = q.serverInfo(), q.isUnencrypted // return the limits despite the wrong flavor
	default:
		res.Status = status
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) serverInfo() nfs3.FSInfoRes {
	n := uint32(q.server.exports.Payload())
	return nfs3.FSInfoRes{
		RTMax: n, RTPref: n, RTMult: payloadMultiple,
		WTMax: n, WTPref: n, WTMult: payloadMultiple,
		DTPref:      preferredDir,
		MaxFileSize: exportset.MaxFileSize,
		TimeDelta:   nfs3.Time{Nsec: 1},
		Properties:  nfs3.FSFLink | nfs3.FSFSymlink | nfs3.FSFHomogeneous | nfs3.FSFCanSetTime,
	}
}

// servePathConf implements PATHCONF (RFC 1813, Section 3.3.20).
func servePathConf(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.HandleArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.PathConfRes
	h, status := q.openToMount(ctx, a.Object)
	if res.Status = status; status == nfs3.OK {
		p, attr, err := q.Export.FS.PathConf(ctx, &q.Cred, h)
		res = nfs3.PathConfRes{
			Status:          q.toStatus(err),
			Attr:            q.postAttr(&h, &attr),
			LinkMax:         p.LinkMax,
			NameMax:         p.NameMax,
			NoTrunc:         p.NoTrunc,
			ChownRestricted: p.ChownRestricted,
			CaseInsensitive: p.CaseInsensitive,
			CasePreserving:  p.CasePreserving,
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}
