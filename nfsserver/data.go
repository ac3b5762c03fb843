package nfsserver

import (
	"context"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// serveRead implements READ (RFC 1813, Section 3.3.6). The data is the reply's data item
// (R8267-4-1).
func serveRead(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.ReadArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	item, count := q.NewReplyItem(false), q.readCount(&a)
	if !canMap(r, count) { // first of all, because this may wait
		_, _ = item.Acquire(ctx, count) // memory only: no export is open
	}
	var res nfs3.ReadRes
	h, status := q.openHandle(ctx, a.File)
	if status == nfs3.OK {
		status = q.toStatus(q.awaitWriter(ctx, h, item, count, r))
	}
	if res.Status = status; status == nfs3.OK {
		q.readData(ctx, h, &a, item, &res, r)
	}
	if res.Status != nfs3.OK {
		item.Release()
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// awaitWriter waits until no other client may change the file in its cache. In the meantime it
// releases the item's memory to other calls. While it waits for memory, another client may get
// the right to change the file.
func (q *request) awaitWriter(ctx context.Context, h vfs.Handle, item exportset.ReplyItem, count int, r *oncrpc.Reply) error {
	for q.ReadWouldWait(h) {
		hasMemory := r.Item != nil
		item.Release()
		if err := q.BeforeRead(ctx, h); err != nil || !hasMemory {
			return err
		}
		if _, err := item.Acquire(ctx, count); err != nil {
			return err
		}
	}
	return nil
}

// readData reads into the reply's data item, without a copy if that is possible.
func (q *request) readData(ctx context.Context, h vfs.Handle, a *nfs3.ReadArgs, item exportset.ReplyItem, res *nfs3.ReadRes, r *oncrpc.Reply) {
	count, off := q.readCount(a), a.Offset
	if off > exportset.MaxFileSize { // past the end of every file: only check permission
		off = 0
	}
	if canMap(r, count) {
		if q.mapData(ctx, h, a, count, res, r) {
			return
		}
		_, err := item.Acquire(ctx, count)
		if err == nil {
			err = q.awaitWriter(ctx, h, item, count, r)
		}
		if err != nil {
			res.Status = q.toStatus(err)
			return
		}
	}
	n, eof, attr, err := q.Export.FS.Read(ctx, &q.Cred, h, r.Item.B, off)
	res.Status, res.Attr = q.fileStatus(err), toPostOpAttr(&attr)
	if err != nil {
		return
	}
	r.Item.B = r.Item.B[:n]
	q.CountData(n, 0)
	res.Count, res.EOF = uint32(n), eof || a.Offset > exportset.MaxFileSize
}

// canMap reports whether the reply to a READ of count bytes may be sent without a copy.
func canMap(r *oncrpc.Reply, count int) bool { return r.Mappable && count >= minMapped }

// mapData reads without copying, if the file system, the transport and the data permit that.
func (q *request) mapData(ctx context.Context, h vfs.Handle, a *nfs3.ReadArgs, count int, res *nfs3.ReadRes, r *oncrpc.Reply) bool {
	if q.Export.Mapper == nil || a.Offset > exportset.MaxFileSize {
		return false
	}
	item, eof, attr, err := q.Export.Mapper.Map(ctx, &q.Cred, h, a.Offset, count)
	if item == nil && err == nil {
		return false
	}
	res.Status, res.Attr = q.fileStatus(err), toPostOpAttr(&attr)
	if err == nil {
		r.DropItem()
		r.Item, r.Cut = item, truncateRead
		q.CountData(len(item.B), 0)
		res.Count, res.EOF = uint32(len(item.B)), eof
	}
	return true
}

// truncateRead changes the head of a READ reply if only n bytes of the data could be sent. If
// err is nil, the file ends there. Otherwise the client requests the rest and gets the error
// then. If n is 0, the reply must carry the error, because some clients take a reply without
// data for the end of the file.
func truncateRead(head []byte, n int, err error) []byte {
	res := head[len(head)-nfs3.ReadHeadLen:]
	if n == 0 && err != nil {
		status, _ := statusOf(err)
		binary.BigEndian.PutUint32(res, uint32(status))
		return head[:len(head)-nfs3.ReadOKLen]
	}
	ok := res[nfs3.ReadHeadLen-nfs3.ReadOKLen:]
	binary.BigEndian.PutUint32(ok, uint32(n))
	eof := uint32(0)
	if err == nil {
		eof = 1
	}
	binary.BigEndian.PutUint32(ok[4:], eof)
	binary.BigEndian.PutUint32(ok[8:], uint32(n))
	return head
}

// readCount returns the number of bytes to read.
func (q *request) readCount(a *nfs3.ReadArgs) int {
	return q.server.exports.ReadCount(a.Offset, a.Count, q.call.MaxReply-nfs3.ReadHeadLen)
}

// serveWrite implements WRITE (RFC 1813, Section 3.3.7).
func serveWrite(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.WriteArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.WriteRes
	var h vfs.Handle
	if h, res.Wcc, res.Status = q.openToChange(ctx, a.File); res.Status == nfs3.OK {
		q.writeData(ctx, h, &a, &res)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) writeData(ctx context.Context, h vfs.Handle, a *nfs3.WriteArgs, res *nfs3.WriteRes) {
	data := a.Data[:min(len(a.Data), q.server.exports.Payload())]
	if a.Offset > exportset.MaxFileSize || uint64(len(data)) > exportset.MaxFileSize-a.Offset {
		res.Status, res.Wcc = nfs3.ErrFBig, q.unchangedWcc(ctx, h)
		return
	}
	if res.Status = q.toStatus(q.BeforeWrite(ctx, h)); res.Status != nfs3.OK {
		return
	}
	// Read the verifier before the write: if a Commit fails concurrently, this data may be lost
	// too, and the client must not see the new verifier with it.
	verf := q.Export.FS.WriteVerifier()
	how := a.Stable
	if q.Options.Async {
		how = nfs3.Unstable
	}
	n, done, wcc, err := q.Export.FS.Write(ctx, &q.Cred, h, data, a.Offset, vfs.Stable(how))
	if n > 0 {
		err = nil // the client sends the rest again, and then gets the error
		q.CountData(0, n)
	}
	committed := nfs3.Stable(done)
	if q.Options.Async {
		committed = max(committed, a.Stable)
	}
	*res = nfs3.WriteRes{
		Status:    q.fileStatus(err),
		Wcc:       toWccData(&wcc),
		Count:     uint32(n),
		Committed: committed,
		Verf:      verf,
	}
}

// serveCommit implements COMMIT (RFC 1813, Section 3.3.21).
func serveCommit(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.CommitArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.CommitRes
	var h vfs.Handle
	if h, res.Wcc, res.Status = q.openToChange(ctx, a.File); res.Status == nfs3.OK {
		q.commitData(ctx, h, &a, &res)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) commitData(ctx context.Context, h vfs.Handle, a *nfs3.CommitArgs, res *nfs3.CommitRes) {
	if q.Options.Async {
		attr, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
		*res = nfs3.CommitRes{Status: q.fileStatus(err), Verf: q.Export.FS.WriteVerifier()}
		if err == nil {
			res.Wcc.After = q.postAttr(&h, &vfs.MaybeAttr{OK: true, Attr: attr})
		}
		return
	}
	if a.Offset > exportset.MaxFileSize || uint64(a.Count) > exportset.MaxFileSize-a.Offset {
		a.Offset, a.Count = 0, 0 // no file has such a range: commit the whole file
	}
	wcc, err := q.Export.FS.Commit(ctx, &q.Cred, h, a.Offset, a.Count)
	// Read the verifier after the commit: if another commit failed concurrently, the client
	// must send its data again.
	*res = nfs3.CommitRes{Status: q.fileStatus(err), Wcc: toWccData(&wcc), Verf: q.Export.FS.WriteVerifier()}
	res.Wcc.After = q.postAttr(&h, &wcc.After)
}

// fileStatus converts an error for procedures on regular files. RFC 1813, Section 3.3.6,
// excludes NFS3ERR_ISDIR for objects that are not regular files.
func (q *request) fileStatus(err error) nfs3.Status {
	status := q.toStatus(err)
	if status == nfs3.ErrIsDir {
		return nfs3.ErrInval
	}
	return status
}
