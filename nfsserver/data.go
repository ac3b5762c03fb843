package nfsserver

import (
	"context"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// read is READ (RFC 1813, Section 3.3.6). The data is the reply's data item
// (R8267-4-1).
func read(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.ReadArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.ReadRes
	if !mayLend(r, q.readCount(&a)) { // NewItem may wait, so call it before using the file system
		r.NewItem(q.readCount(&a))
	}
	h, status := q.open(ctx, a.File)
	if status == nfs3.OK && q.ReadWaits(h) {
		status = q.beforeRead(ctx, h, &a, r)
	}
	if res.Status = status; status == nfs3.OK {
		q.read(ctx, h, &a, &res, r)
	} else {
		r.DropItem()
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// beforeRead waits for another client that may change a file by itself. The memory of
// the reply is for others meanwhile.
func (q *request) beforeRead(ctx context.Context, h vfs.Handle, a *nfs3.ReadArgs, r *oncrpc.Reply) nfs3.Status {
	r.DropItem()
	err := q.BeforeRead(ctx, h)
	if err == nil && !mayLend(r, q.readCount(a)) {
		q.Rest()
		r.NewItem(q.readCount(a))
		err = q.Work(ctx)
	}
	return q.status(err)
}

func (q *request) read(ctx context.Context, h vfs.Handle, a *nfs3.ReadArgs, res *nfs3.ReadRes, r *oncrpc.Reply) {
	count, off := q.readCount(a), a.Offset
	if off > realm.MaxFileSize { // past the end of every file: only check permission
		off = 0
	}
	if mayLend(r, count) {
		if q.lend(ctx, h, a, count, res, r) {
			return
		}
		if err := q.takeItem(ctx, h, count, r); err != nil {
			r.DropItem()
			res.Status = q.status(err)
			return
		}
	}
	p := r.Item.B
	n, eof, attr, err := q.Export.FS.Read(ctx, &q.Cred, h, p, off)
	res.Status, res.Attr = q.fileStatus(err), wirePostAttr(&attr)
	if err != nil {
		r.DropItem()
		return
	}
	r.Item.B = p[:n]
	res.Count, res.EOF = uint32(n), eof || a.Offset > realm.MaxFileSize
}

// takeItem takes the memory of a READ that is not lent. Another client may have got the
// right to change the file by itself during the wait for memory.
func (q *request) takeItem(ctx context.Context, h vfs.Handle, count int, r *oncrpc.Reply) error {
	for {
		q.Rest()
		r.NewItem(count)
		if err := q.Work(ctx); err != nil || !q.ReadWaits(h) {
			return err
		}
		r.DropItem() // the memory is for others meanwhile
		if err := q.BeforeRead(ctx, h); err != nil {
			return err
		}
	}
}

// mayLend reports whether a READ of count bytes may be answered without a copy.
func mayLend(r *oncrpc.Reply, count int) bool { return r.Mappable && count >= minLent }

// lend is read without a copy, if the file system, the transport and the data
// permit it.
func (q *request) lend(ctx context.Context, h vfs.Handle, a *nfs3.ReadArgs, count int, res *nfs3.ReadRes, r *oncrpc.Reply) bool {
	if q.Export.Mapper == nil || a.Offset > realm.MaxFileSize {
		return false
	}
	item, eof, attr, err := q.Export.Mapper.Map(ctx, &q.Cred, h, a.Offset, count)
	if item == nil && err == nil {
		return false
	}
	res.Status, res.Attr = q.fileStatus(err), wirePostAttr(&attr)
	if err == nil {
		r.DropItem()
		r.Item, r.Cut = item, cutRead
		res.Count, res.EOF = uint32(len(item.B)), eof
	}
	return true
}

// cutRead changes the head of a READ reply if only n bytes of the data could be
// sent. Without an error the file ends there. With an error, the client asks
// for the rest and gets the error then. If n is 0 the reply must carry the
// error itself, because some clients take a reply without data for the end of
// the file.
func cutRead(head []byte, n int, err error) []byte {
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

// readCount returns how many bytes to read.
func (q *request) readCount(a *nfs3.ReadArgs) int {
	return q.server.realm.ReadCount(a.Offset, a.Count, q.call.MaxReply-nfs3.ReadHeadLen)
}

// write is WRITE (RFC 1813, Section 3.3.7).
func write(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.WriteArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.WriteRes
	var h vfs.Handle
	if h, res.Wcc, res.Status = q.openToChange(ctx, a.File); res.Status == nfs3.OK {
		q.write(ctx, h, &a, &res)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) write(ctx context.Context, h vfs.Handle, a *nfs3.WriteArgs, res *nfs3.WriteRes) {
	data := a.Data[:min(len(a.Data), q.server.realm.Payload())]
	if a.Offset > realm.MaxFileSize || uint64(len(data)) > realm.MaxFileSize-a.Offset {
		res.Status, res.Wcc = nfs3.ErrFBig, q.unchanged(ctx, h)
		return
	}
	if res.Status = q.status(q.BeforeWrite(ctx, h)); res.Status != nfs3.OK {
		return
	}
	// Read the verifier before the write: if a Commit fails meanwhile, this
	// data may be lost too, and the client must not see the new verifier with
	// it.
	verf := q.Export.FS.WriteVerifier()
	how := a.Stable
	if q.Options.Async {
		how = nfs3.Unstable
	}
	n, done, wcc, err := q.Export.FS.Write(ctx, &q.Cred, h, data, a.Offset, vfs.Stable(how))
	if n > 0 {
		err = nil // the client sends the rest again, and then gets the error
	}
	committed := nfs3.Stable(done)
	if q.Options.Async {
		committed = max(committed, a.Stable)
	}
	*res = nfs3.WriteRes{
		Status:    q.fileStatus(err),
		Wcc:       wireWcc(&wcc),
		Count:     uint32(n),
		Committed: committed,
		Verf:      verf,
	}
}

// commit is COMMIT (RFC 1813, Section 3.3.21).
func commit(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.CommitArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.CommitRes
	var h vfs.Handle
	if h, res.Wcc, res.Status = q.openToChange(ctx, a.File); res.Status == nfs3.OK {
		q.commit(ctx, h, &a, &res)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) commit(ctx context.Context, h vfs.Handle, a *nfs3.CommitArgs, res *nfs3.CommitRes) {
	if q.Options.Async {
		attr, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
		*res = nfs3.CommitRes{Status: q.fileStatus(err), Verf: q.Export.FS.WriteVerifier()}
		if err == nil {
			res.Wcc.After = q.postAttr(&h, &vfs.MaybeAttr{OK: true, Attr: attr})
		}
		return
	}
	if a.Offset > realm.MaxFileSize || uint64(a.Count) > realm.MaxFileSize-a.Offset {
		a.Offset, a.Count = 0, 0 // no file has such a range: commit the whole file
	}
	wcc, err := q.Export.FS.Commit(ctx, &q.Cred, h, a.Offset, a.Count)
	// Read the verifier after the commit: if another commit failed meanwhile,
	// the client must send its data again.
	*res = nfs3.CommitRes{Status: q.fileStatus(err), Wcc: wireWcc(&wcc), Verf: q.Export.FS.WriteVerifier()}
	res.Wcc.After = q.postAttr(&h, &wcc.After)
}

// fileStatus is status for procedures on regular files. RFC 1813, Section
// 3.3.6, excludes NFS3ERR_ISDIR for objects that are not regular files.
func (q *request) fileStatus(err error) nfs3.Status {
	status := q.status(err)
	if status == nfs3.ErrIsDir {
		return nfs3.ErrInval
	}
	return status
}
