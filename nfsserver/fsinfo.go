package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// fsStat is FSSTAT (RFC 1813, Section 3.3.18).
func fsStat(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.HandleArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.FSStatRes
	h, status := q.openToMount(ctx, a.Object)
	if res.Status = status; status == nfs3.OK {
		st, attr, err := q.Export.FS.StatFS(ctx, &q.Cred, h)
		res = nfs3.FSStatRes{
			Status:     q.status(err),
			Attr:       q.postAttr(&h, &attr),
			TotalBytes: st.TotalBytes, FreeBytes: st.FreeBytes, AvailBytes: st.AvailBytes,
			TotalFiles: st.TotalFiles, FreeFiles: st.FreeFiles, AvailFiles: st.AvailFiles,
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// fsInfo is FSINFO (RFC 1813, Section 3.3.19). A client that may not use the
// export, or not with the flavour of the call, learns the limits of this server,
// but nothing about the file system.
func fsInfo(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.HandleArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.FSInfoRes
	h, status := q.openToMount(ctx, a.Object)
	switch status {
	case nfs3.OK:
		attr, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
		res = q.fsInfo()
		if res.Status = q.status(err); err == nil {
			res.Attr = q.postAttr(&h, &vfs.MaybeAttr{OK: true, Attr: attr})
		}
	case nfs3.ErrAcces:
		res, q.tooWeak = q.fsInfo(), q.unsafe // a wrong flavour is no obstacle
	default:
		res.Status = status
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) fsInfo() nfs3.FSInfoRes {
	n := uint32(q.server.realm.Payload())
	return nfs3.FSInfoRes{
		RTMax: n, RTPref: n, RTMult: payloadMultiple,
		WTMax: n, WTPref: n, WTMult: payloadMultiple,
		DTPref:      preferredDir,
		MaxFileSize: realm.MaxFileSize,
		TimeDelta:   nfs3.Time{Nsec: 1},
		Properties:  nfs3.FSFLink | nfs3.FSFSymlink | nfs3.FSFHomogeneous | nfs3.FSFCanSetTime,
	}
}

// pathConf is PATHCONF (RFC 1813, Section 3.3.20).
func pathConf(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.HandleArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.PathConfRes
	h, status := q.openToMount(ctx, a.Object)
	if res.Status = status; status == nfs3.OK {
		p, attr, err := q.Export.FS.PathConf(ctx, &q.Cred, h)
		res = nfs3.PathConfRes{
			Status:          q.status(err),
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
