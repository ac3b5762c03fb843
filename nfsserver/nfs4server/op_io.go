package nfs4server

import (
	"context"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// checkStateID checks the stateid of a READ, WRITE or SETATTR of the size on the current
// object. See checkObjectStateID.
func (x *compound) checkStateID(ctx context.Context, id *nfs4.StateID, access uint32) (*exportset.Open, nfs4.Status) {
	return x.checkObjectStateID(ctx, &x.current, &x.specialUse, id, access)
}

// checkObjectStateID checks a stateid for access to an object. If the stateid represents an
// open, that open must be for this object and the given access. A special stateid begins a
// special use; if no open denies the access (RFC 8881, Sections 8.2.3 and 9.7), the returned
// open is nil.
func (x *compound) checkObjectStateID(ctx context.Context, obj *object, use *nfs4state.SpecialUse, id *nfs4.StateID, access uint32) (*exportset.Open, nfs4.Status) {
	key, err := x.objectKey(obj)
	if err != nil {
		return nil, x.toStatus(err)
	}
	switch *id {
	case nfs4.CurrentStateID:
		if !obj.hasStateID {
			return nil, nfs4.ErrBadStateID
		}
		current := obj.stateid
		current.SeqID = 0
		return x.checkObjectStateID(ctx, obj, use, &current, access)
	case nfs4.BypassStateID, nfs4.AnonymousStateID:
		bypass := *id == nfs4.BypassStateID && access == nfs4.ShareRead
		if access == nfs4.ShareRead {
			err := x.acquirePermit(ctx, obj) // BeforeRead may wait; the permit must be for this export
			if err == nil {
				err = obj.use.BeforeRead(ctx, obj.h)
			}
			if err != nil {
				return nil, x.toStatus(err)
			}
			if key, err = x.objectKey(obj); err != nil {
				return nil, x.toStatus(err)
			}
		}
		var status nfs4.Status
		*use, status = x.server.state.BeginSpecial(key, access, bypass)
		return nil, status
	}
	if status := x.actForStateID(id); status != nfs4.OK {
		return nil, status
	}
	o, status := x.server.state.Open(x.session, id)
	switch {
	case o == nil:
		return nil, status
	case o.Key != string(key):
		return nil, nfs4.ErrBadStateID
	case status != nfs4.OK:
		return nil, status
	case o.Access()&access == 0:
		return nil, nfs4.ErrOpenMode
	}
	x.attributeChanges(obj)
	return openOf(o.File), nfs4.OK
}

// checkReadStateID checks a stateid for an operation that reads and needs the file's
// attributes. It fetches them after a client with a write delegation may have written back.
func (x *compound) checkReadStateID(ctx context.Context, obj *object, use *nfs4state.SpecialUse, id *nfs4.StateID, attr *vfs.Attr) (*exportset.Open, nfs4.Status) {
	opened, status := x.checkObjectStateID(ctx, obj, use, id, nfs4.ShareRead)
	if status == nfs4.OK && opened == nil {
		*attr, status = x.getAttr(ctx, obj)
	}
	return opened, status
}

// checkSizeStateID checks the stateid of a SETATTR of the size.
func (x *compound) checkSizeStateID(ctx context.Context, id *nfs4.StateID) (*exportset.Open, nfs4.Status) {
	attr, status := x.getAttr(ctx, &x.current)
	if status != nfs4.OK {
		return nil, status
	}
	switch status := checkRegular(&attr); {
	case status == nfs4.ErrIsDir && x.minor == nfs4.Minor0:
		return nil, status
	case status != nfs4.OK:
		return nil, nfs4.ErrWrongType // Section 15.2 lists no other such status
	}
	return x.checkStateID(ctx, id, nfs4.ShareWrite)
}

// checkFile checks the current object of READ, WRITE and COMMIT.
func (x *compound) checkFile(ctx context.Context) nfs4.Status {
	if x.current.node != nil {
		return nfs4.ErrIsDir
	}
	return x.toStatus(x.acquirePermit(ctx, &x.current))
}

// fileStatus converts an error for operations on regular files: for another object, the status
// depends on its type.
func (x *compound) fileStatus(ctx context.Context, err error) nfs4.Status {
	status := x.toStatus(err)
	switch status {
	case nfs4.ErrIsDir, nfs4.ErrInval, nfs4.ErrSymlink:
		if attr, s := x.getAttr(ctx, &x.current); s == nfs4.OK {
			if s = checkRegular(&attr); s != nfs4.OK {
				return s
			}
		}
	}
	return status
}

// readResultLen is the length in bytes of READ's operation number and results without the data.
const readResultLen = minResultLen + 4 + 4

// serveRead implements READ (RFC 8881, Section 18.22). The data is a data item of the reply.
func serveRead(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.ReadArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.checkFile(ctx); status != nfs4.OK {
		return status
	}
	opened, status := x.checkStateID(ctx, &a.StateID, nfs4.ShareRead)
	if status != nfs4.OK {
		return status
	}
	f := x.current.use.FileOf(opened, vfs.OpenRead)
	if f != nil {
		defer f.Done()
	}
	requested, space := x.itemLimits(a.Count)
	count := x.server.exports.ReadCount(a.Offset, requested, space-readResultLen)
	res := &x.results.read
	*res = nfs4.ReadRes{}
	if x.mapItem(ctx, f, &a, count, truncateRead) {
		status = res.Status
	} else {
		status = x.readItem(ctx, f, &a, count)
	}
	if status != nfs4.OK {
		return status
	}
	x.out = res.AppendTo(x.out)
	x.current.use.CountData(int(res.Count), 0)
	x.finishItem(int(res.Count))
	return nfs4.OK
}

// itemLimits returns the maximum length of the next data item, for which n bytes are wanted,
// and the space for the item with its operation's other results. A COMPOUND's data items use
// the call's chunks in the order of their operations (RFC 8267, Section 6.4.1).
func (x *compound) itemLimits(n uint32) (maxLen uint32, space int) {
	limits := x.call.ItemLimits
	if x.itemCount >= len(limits) || limits[x.itemCount] == 0 {
		return n, x.bytesLeft()
	}
	return min(n, uint32(limits[x.itemCount])), x.replyBytesLeft() + 3 // the padding is not sent
}

// acquireItem acquires the memory for a data item of n bytes. The transport may move the results
// before the first item.
func (x *compound) acquireItem(ctx context.Context, item exportset.ReplyItem, n int) ([]byte, error) {
	if x.itemCount > 0 {
		return item.Acquire(ctx, n)
	}
	x.reply.Head = x.out
	p, err := item.Acquire(ctx, n)
	x.out = x.reply.Head
	return p, err
}

// finishItem completes a data item of n bytes and the results before it.
func (x *compound) finishItem(n int) {
	if limits := x.call.ItemLimits; x.itemCount < len(limits) && limits[x.itemCount] > 0 {
		x.itemBytes += n + xdr.Pad(n)
	}
	x.flushResults()
	x.itemCount++
	x.afterItem = true
}

// readAt reads into p, through f unless it is nil.
func (x *compound) readAt(ctx context.Context, f *exportset.File, a *nfs4.ReadArgs, p []byte) (n int, eof bool, err error) {
	u, off := x.current.use, a.Offset
	if off > exportset.MaxFileSize { // past the end of every file: only check permission
		off = 0
	}
	if f != nil {
		n, eof, err = f.Read(ctx, p, off)
		return n, eof || a.Offset > exportset.MaxFileSize, err
	}
	n, eof, _, err = u.Export.FS.Read(ctx, &u.Cred, x.current.h, p, off)
	return n, eof || a.Offset > exportset.MaxFileSize, err
}

// readItem reads into a data item of the reply.
func (x *compound) readItem(ctx context.Context, f *exportset.File, a *nfs4.ReadArgs, count int) nfs4.Status {
	item := x.current.use.NewReplyItem(x.itemCount > 0)
	p, err := x.acquireItem(ctx, item, count)
	if err != nil {
		return x.toStatus(err)
	}
	n, eof, err := x.readAt(ctx, f, a, p)
	if err != nil {
		item.Release()
		return x.fileStatus(ctx, err)
	}
	x.reply.Shorten(n)
	x.results.read.EOF, x.results.read.Count = eof, uint32(n)
	return nfs4.OK
}

// mapItem reads without copying, if the file system, the transport and the data permit that. It
// sets the result's status, and sets the reply's Cut to cut.
func (x *compound) mapItem(ctx context.Context, f *exportset.File, a *nfs4.ReadArgs, count int, cut truncateFunc) bool {
	u, r := x.current.use, x.reply
	if !r.Mappable || u.Export.Mapper == nil || a.Offset > exportset.MaxFileSize || x.opIndex+1 < x.opCount || x.cacheReply || x.itemCount > 0 {
		return false // no results may follow the bytes that Cut changes, and the slot must not copy the bytes that Cut covers
	}
	var item *buf.Buf
	var eof bool
	var err error
	if f != nil {
		item, eof, err = f.Map(ctx, a.Offset, count)
	} else {
		item, eof, _, err = u.Export.Mapper.Map(ctx, &u.Cred, x.current.h, a.Offset, count)
	}
	if item == nil && err == nil {
		return false
	}
	res := &x.results.read
	if res.Status = x.fileStatus(ctx, err); err == nil {
		r.DropItem()
		r.Item, r.Cut = item, cut
		res.EOF, res.Count = eof, uint32(len(item.B))
	}
	return true
}

// A truncateFunc is a Reply's Cut.
type truncateFunc = func(head []byte, n int, err error) []byte

// truncateRead changes the head of a reply that ends with a READ of which only n data bytes
// could be sent. If err is nil, the file ends there. Otherwise the client requests the rest and
// gets the error then; if n is 0, the reply must carry the error.
func truncateRead(head []byte, n int, err error) []byte {
	return truncateData(head, len(head)-12, n, err) // status, eof, length
}

// truncateData changes the results of a read, which start with a status at head[results:] and
// end with data.
func truncateData(head []byte, results, n int, err error) []byte {
	ok := head[results:]
	if n == 0 && err != nil {
		status, _ := statusOf(err)
		binary.BigEndian.PutUint32(ok, uint32(status))
		binary.BigEndian.PutUint32(head[rpcmsg.ResultsAt(head):], uint32(status)) // COMPOUND's status
		return head[:results+4]
	}
	eof := uint32(0)
	if err == nil {
		eof = 1
	}
	binary.BigEndian.PutUint32(ok[4:], eof)
	binary.BigEndian.PutUint32(head[len(head)-4:], uint32(n))
	return head
}

// serveWrite implements WRITE (RFC 8881, Section 18.32).
func serveWrite(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.WriteArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.checkFile(ctx)
	if status == nfs4.OK {
		status = x.checkWritable(&x.current)
	}
	var opened *exportset.Open
	if status == nfs4.OK {
		opened, status = x.checkStateID(ctx, &a.StateID, nfs4.ShareWrite)
	}
	if status != nfs4.OK {
		return status
	}
	data := a.Data[:min(len(a.Data), x.server.exports.Payload())]
	if a.Offset > exportset.MaxFileSize || uint64(len(data)) > exportset.MaxFileSize-a.Offset {
		return nfs4.ErrFBig
	}
	u, h := x.current.use, x.current.h
	f := u.FileOf(opened, vfs.OpenWrite)
	if f != nil {
		defer f.Done()
	}
	err := x.announceWrite(ctx, opened, f)
	if err != nil {
		return x.toStatus(err)
	}
	// Read the verifier before the write: if a Commit fails concurrently, this data may be lost
	// too, and the client must not see the new verifier with it.
	verf := u.Export.FS.WriteVerifier()
	how := a.Stable
	if u.Options.Async {
		how = nfs4.Unstable
	}
	var n int
	var done vfs.Stable
	if f != nil {
		n, done, err = f.Write(ctx, data, a.Offset, vfs.Stable(how))
	} else {
		n, done, _, err = u.Export.FS.Write(ctx, &u.Cred, h, data, a.Offset, vfs.Stable(how))
	}
	if err != nil && n == 0 {
		return x.fileStatus(ctx, err)
	} // otherwise the client sends the rest again, and then gets the error
	u.CountData(0, n)
	res := &x.results.write
	*res = nfs4.WriteRes{Count: uint32(n), Committed: nfs4.Stable(done)}
	if u.Options.Async {
		res.Committed = max(res.Committed, a.Stable)
	}
	binary.BigEndian.PutUint64(res.Verf[:], verf)
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// announceWrite announces a change of the current object's data, through f unless it is nil, by
// a stateid of opened unless that is nil.
func (x *compound) announceWrite(ctx context.Context, opened *exportset.Open, f *exportset.File) error {
	switch u, h := x.current.use, x.current.h; {
	case f != nil:
		return u.BeforeOpenWrite(ctx, h)
	case opened != nil:
		return u.BeforeStateWrite(ctx, h)
	default:
		return u.BeforeWrite(ctx, h)
	}
}

// serveCommit implements COMMIT (RFC 8881, Section 18.3).
func serveCommit(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CommitArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.checkFile(ctx); status != nfs4.OK {
		return status
	}
	u, h := x.current.use, x.current.h
	var err error
	if u.Options.Async {
		_, err = u.Export.FS.GetAttr(ctx, &u.Cred, h)
	} else {
		if a.Offset > exportset.MaxFileSize || uint64(a.Count) > exportset.MaxFileSize-a.Offset {
			a.Offset, a.Count = 0, 0 // no file has such a range: commit the whole file
		}
		err = x.commitRange(ctx, a.Offset, a.Count)
	}
	if err != nil {
		return x.fileStatus(ctx, err)
	}
	// Read the verifier after the commit: if another commit failed concurrently, the client
	// must send its data again.
	res := nfs4.CommitRes{}
	binary.BigEndian.PutUint64(res.Verf[:], u.Export.FS.WriteVerifier())
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// commitRange commits through a file that the caller has open for writing, if any: the file's
// mode may deny the caller access.
func (x *compound) commitRange(ctx context.Context, off uint64, count uint32) error {
	if f := x.findWritableFile(); f != nil {
		defer f.Done()
		return f.Commit(ctx, off, count)
	}
	u := x.current.use
	_, err := u.Export.FS.Commit(ctx, &u.Cred, x.current.h, off, count)
	return err
}

// serveReadLink implements READLINK (RFC 8881, Section 18.24). The path is a data item of the
// reply.
func serveReadLink(ctx context.Context, x *compound) nfs4.Status {
	if x.current.node != nil {
		return nfs4.ErrWrongType
	}
	if err := x.acquirePermit(ctx, &x.current); err != nil {
		return x.toStatus(err)
	}
	u := x.current.use
	path, _, err := u.Export.FS.ReadLink(ctx, &u.Cred, x.current.h)
	if err != nil {
		status := x.toStatus(err)
		if attr, s := x.getAttr(ctx, &x.current); s == nfs4.OK && attr.Type != vfs.TypeLnk {
			return nfs4.ErrWrongType
		}
		return status
	}
	res := nfs4.ReadLinkRes{Link: []byte(path)}
	maxLen, space := x.itemLimits(uint32(len(path)))
	if space < minResultLen+4+len(path)+xdr.Pad(len(path)) || int(maxLen) < len(path) {
		return x.tooBigStatus()
	}
	p, err := x.acquireItem(ctx, u.NewReplyItem(x.itemCount > 0), len(path))
	if err != nil {
		return x.toStatus(err)
	}
	copy(p, path)
	x.out = res.AppendTo(x.out)
	x.finishItem(len(path))
	return nfs4.OK
}
