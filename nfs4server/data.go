package nfs4server

import (
	"context"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// mayUse checks the stateid of READ, WRITE or SETATTR of the size: the open
// that it stands for must be of the current object, and for the given access.
// Without an open, no other may deny it (RFC 8881, Sections 8.2.3 and 9.7), and
// the returned one is nil.
func (x *compound) mayUse(ctx context.Context, id *nfs4.StateID, access uint32) (*realm.Open, nfs4.Status) {
	return x.mayUseOf(ctx, &x.current, &x.special, id, access)
}

// mayUseOf is mayUse for another object than the current one. A special stateid
// begins a use.
func (x *compound) mayUseOf(ctx context.Context, of *object, use *nfs4state.SpecialUse, id *nfs4.StateID, access uint32) (*realm.Open, nfs4.Status) {
	key, err := x.key(of)
	if err != nil {
		return nil, x.status(err)
	}
	switch *id {
	case nfs4.CurrentStateID:
		if !of.stated {
			return nil, nfs4.ErrBadStateID
		}
		current := of.stateid
		current.SeqID = 0
		return x.mayUseOf(ctx, of, use, &current, access)
	case nfs4.BypassStateID, nfs4.AnonymousStateID:
		bypass := *id == nfs4.BypassStateID && access == nfs4.ShareRead
		if access == nfs4.ShareRead {
			err := x.work(ctx, of) // BeforeRead may wait, and gives up no other export's permit
			if err == nil {
				err = of.use.BeforeRead(ctx, of.h)
			}
			if err != nil {
				return nil, x.status(err)
			}
			if key, err = x.key(of); err != nil {
				return nil, x.status(err)
			}
		}
		var status nfs4.Status
		*use, status = x.server.state.BeginSpecial(key, access, bypass)
		return nil, status
	}
	if status := x.byStateID(id); status != nfs4.OK {
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
	return openOf(o.File), nfs4.OK
}

// mayRead is mayUseOf for an operation that reads and needs the file's attributes:
// these are newer than what a client with a delegation for writing has just written back.
func (x *compound) mayRead(ctx context.Context, of *object, use *nfs4state.SpecialUse, id *nfs4.StateID, attr *vfs.Attr) (*realm.Open, nfs4.Status) {
	opened, status := x.mayUseOf(ctx, of, use, id, nfs4.ShareRead)
	if status == nfs4.OK && opened == nil {
		*attr, status = x.attr(ctx, of)
	}
	return opened, status
}

// maySize is mayUse for SETATTR of the size.
func (x *compound) maySize(ctx context.Context, id *nfs4.StateID) (*realm.Open, nfs4.Status) {
	attr, status := x.attr(ctx, &x.current)
	if status != nfs4.OK {
		return nil, status
	}
	switch status := regular(&attr); {
	case status == nfs4.ErrIsDir && x.minor == nfs4.Minor0:
		return nil, status
	case status != nfs4.OK:
		return nil, nfs4.ErrWrongType // Section 15.2 lists no other of its kind
	}
	return x.mayUse(ctx, id, nfs4.ShareWrite)
}

// file checks the current object of READ, WRITE and COMMIT.
func (x *compound) file(ctx context.Context) nfs4.Status {
	if x.current.node != nil {
		return nfs4.ErrIsDir
	}
	return x.status(x.work(ctx, &x.current))
}

// dataStatus is status for operations on regular files: the status of another
// object depends on its type.
func (x *compound) dataStatus(ctx context.Context, err error) nfs4.Status {
	status := x.status(err)
	switch status {
	case nfs4.ErrIsDir, nfs4.ErrInval, nfs4.ErrSymlink:
		if attr, s := x.attr(ctx, &x.current); s == nfs4.OK {
			if s = regular(&attr); s != nfs4.OK {
				return s
			}
		}
	}
	return status
}

// readHead is the length in bytes of READ's number and results without the
// data.
const readHead = minResult + 4 + 4

// read is READ (RFC 8881, Section 18.22). Its data are a data item of the reply.
func read(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.ReadArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.file(ctx); status != nfs4.OK {
		return status
	}
	opened, status := x.mayUse(ctx, &a.StateID, nfs4.ShareRead)
	if status != nfs4.OK {
		return status
	}
	f := x.current.use.FileOf(opened, vfs.OpenRead)
	if f != nil {
		defer f.Done()
	}
	asked, room := x.itemRoom(a.Count)
	count := x.server.realm.ReadCount(a.Offset, asked, room-readHead)
	res := &x.results.read
	*res = nfs4.ReadRes{}
	if x.lend(ctx, f, &a, count, cutRead) {
		status = res.Status
	} else {
		status = x.readItem(ctx, f, &a, count)
	}
	if status != nfs4.OK {
		return status
	}
	x.out = res.AppendTo(x.out)
	x.placed(int(res.Count))
	return nfs4.OK
}

// itemRoom returns the most bytes of the next data item, of which n are wanted,
// and the room for the item with its operation's other results. The items of a
// COMPOUND use the chunks of a call in the order of their operations (RFC 8267,
// Section 6.4.1).
func (x *compound) itemRoom(n uint32) (most uint32, room int) {
	rooms := x.call.ItemRooms
	if x.items >= len(rooms) || rooms[x.items] == 0 {
		return n, x.left()
	}
	return min(n, uint32(rooms[x.items])), x.wholeLeft() + 3 // the padding is not sent
}

// newItem returns memory for the next data item, or false if there is none at
// present. It may wait, but not for an item after the first: the call holds
// memory that others may wait for.
func (x *compound) newItem(n int) ([]byte, bool) {
	if x.items == 0 {
		x.reply.Head = x.out // the transport may move the bytes that a READDIR has put there
		p := x.reply.NewItem(n)
		x.out = x.reply.Head
		return p, true
	}
	return x.reply.AddItem(n)
}

// dropItem releases the item that newItem returned.
func (x *compound) dropItem() {
	if x.items == 0 {
		x.reply.DropItem()
	} else {
		x.reply.DropLast()
	}
}

// placed ends the results in front of the next data item, which has n bytes.
func (x *compound) placed(n int) {
	if rooms := x.call.ItemRooms; x.items < len(rooms) && rooms[x.items] > 0 {
		x.apart += n + xdr.Pad(n)
	}
	x.flush()
	x.items++
	x.split = true
}

// readAt reads into p, by an open file unless f is nil.
func (x *compound) readAt(ctx context.Context, f *realm.File, a *nfs4.ReadArgs, p []byte) (n int, eof bool, err error) {
	u, off := x.current.use, a.Offset
	if off > realm.MaxFileSize { // past the end of every file: only check permission
		off = 0
	}
	if f != nil {
		n, eof, err = f.Read(ctx, p, off)
		return n, eof || a.Offset > realm.MaxFileSize, err
	}
	n, eof, _, err = u.Export.FS.Read(ctx, &u.Cred, x.current.h, p, off)
	return n, eof || a.Offset > realm.MaxFileSize, err
}

// readItem reads into a data item of the reply.
func (x *compound) readItem(ctx context.Context, f *realm.File, a *nfs4.ReadArgs, count int) nfs4.Status {
	x.current.use.Rest() // newItem may wait
	p, ok := x.newItem(count)
	if !ok {
		return nfs4.ErrDelay
	}
	if err := x.work(ctx, &x.current); err != nil {
		x.dropItem()
		return x.status(err)
	}
	n, eof, err := x.readAt(ctx, f, a, p)
	if err != nil {
		x.dropItem()
		return x.dataStatus(ctx, err)
	}
	x.reply.Shorten(n)
	x.results.read.EOF, x.results.read.Count = eof, uint32(n)
	return nfs4.OK
}

// lend reads without a copy, if the file system, the transport and the data
// permit it. It sets the result's status. The reply's Cut becomes cut.
func (x *compound) lend(ctx context.Context, f *realm.File, a *nfs4.ReadArgs, count int, cut cutter) bool {
	u, r := x.current.use, x.reply
	if !r.Mappable || u.Export.Mapper == nil || a.Offset > realm.MaxFileSize || x.i+1 < x.n || x.keep || x.items > 0 {
		return false // nothing may follow the bytes that Cut changes, and nothing may copy the bytes that Cut covers
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
	if res.Status = x.dataStatus(ctx, err); err == nil {
		r.DropItem()
		r.Item, r.Cut = item, cut
		res.EOF, res.Count = eof, uint32(len(item.B))
	}
	return true
}

// A cutter is a Reply's Cut.
type cutter = func(head []byte, n int, err error) []byte

// cutRead changes the head of a reply that ends with a READ of which only n
// bytes of data could be sent. Without an error the file ends there. With an
// error, the client asks for the rest and gets the error then; if n is 0 the
// reply must carry the error itself.
func cutRead(head []byte, n int, err error) []byte {
	return cutData(head, len(head)-12, n, err) // status, eof, length
}

// cutData changes the results of a read, from their status on, of which the data
// are the last.
func cutData(head []byte, results, n int, err error) []byte {
	ok := head[results:]
	if n == 0 && err != nil {
		status, _ := statusOf(err)
		binary.BigEndian.PutUint32(ok, uint32(status))
		binary.BigEndian.PutUint32(head[rpcmsg.ResultsAt(head):], uint32(status)) // of the COMPOUND
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

// write is WRITE (RFC 8881, Section 18.32).
func write(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.WriteArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.file(ctx)
	if status == nfs4.OK {
		status = x.mayChange(&x.current)
	}
	var opened *realm.Open
	if status == nfs4.OK {
		opened, status = x.mayUse(ctx, &a.StateID, nfs4.ShareWrite)
	}
	if status != nfs4.OK {
		return status
	}
	data := a.Data[:min(len(a.Data), x.server.realm.Payload())]
	if a.Offset > realm.MaxFileSize || uint64(len(data)) > realm.MaxFileSize-a.Offset {
		return nfs4.ErrFBig
	}
	u, h := x.current.use, x.current.h
	f := u.FileOf(opened, vfs.OpenWrite)
	if f != nil {
		defer f.Done()
	}
	err := x.announceWrite(ctx, opened, f)
	if err != nil {
		return x.status(err)
	}
	// Read the verifier before the write: if a Commit fails meanwhile, this
	// data may be lost too, and the client must not see the new verifier with
	// it.
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
		return x.dataStatus(ctx, err)
	} // otherwise the client sends the rest again, and then gets the error
	res := &x.results.write
	*res = nfs4.WriteRes{Count: uint32(n), Committed: nfs4.Stable(done)}
	if u.Options.Async {
		res.Committed = max(res.Committed, a.Stable)
	}
	binary.BigEndian.PutUint64(res.Verf[:], verf)
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// announceWrite announces that the data of the current object are about to
// change, through f unless it is nil, by a stateid of opened unless that is nil.
func (x *compound) announceWrite(ctx context.Context, opened *realm.Open, f *realm.File) error {
	switch u, h := x.current.use, x.current.h; {
	case f != nil:
		return u.BeforeOpenWrite(ctx, h)
	case opened != nil:
		return u.BeforeStateWrite(ctx, h)
	default:
		return u.BeforeWrite(ctx, h)
	}
}

// commit is COMMIT (RFC 8881, Section 18.3).
func commit(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CommitArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.file(ctx); status != nfs4.OK {
		return status
	}
	u, h := x.current.use, x.current.h
	var err error
	if u.Options.Async {
		_, err = u.Export.FS.GetAttr(ctx, &u.Cred, h)
	} else {
		if a.Offset > realm.MaxFileSize || uint64(a.Count) > realm.MaxFileSize-a.Offset {
			a.Offset, a.Count = 0, 0 // no file has such a range: commit the whole file
		}
		err = x.commitRange(ctx, a.Offset, a.Count)
	}
	if err != nil {
		return x.dataStatus(ctx, err)
	}
	// Read the verifier after the commit: if another commit failed meanwhile,
	// the client must send its data again.
	res := nfs4.CommitRes{}
	binary.BigEndian.PutUint64(res.Verf[:], u.Export.FS.WriteVerifier())
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// commitRange commits by a file that the caller has open for writing, if there
// is one: the file's mode may permit the caller nothing.
func (x *compound) commitRange(ctx context.Context, off uint64, count uint32) error {
	if f := x.writer(); f != nil {
		defer f.Done()
		return f.Commit(ctx, off, count)
	}
	u := x.current.use
	_, err := u.Export.FS.Commit(ctx, &u.Cred, x.current.h, off, count)
	return err
}

// readLink is READLINK (RFC 8881, Section 18.24). The path is a data item of
// the reply.
func readLink(ctx context.Context, x *compound) nfs4.Status {
	if x.current.node != nil {
		return nfs4.ErrWrongType
	}
	if err := x.work(ctx, &x.current); err != nil {
		return x.status(err)
	}
	u := x.current.use
	path, _, err := u.Export.FS.ReadLink(ctx, &u.Cred, x.current.h)
	if err != nil {
		status := x.status(err)
		if attr, s := x.attr(ctx, &x.current); s == nfs4.OK && attr.Type != vfs.TypeLnk {
			return nfs4.ErrWrongType
		}
		return status
	}
	res := nfs4.ReadLinkRes{Link: []byte(path)}
	most, room := x.itemRoom(uint32(len(path)))
	if room < minResult+4+len(path)+xdr.Pad(len(path)) || int(most) < len(path) {
		return x.tooBig()
	}
	u.Rest() // newItem may wait
	p, ok := x.newItem(len(path))
	if !ok {
		return nfs4.ErrDelay
	}
	copy(p, path)
	x.out = res.AppendTo(x.out)
	x.placed(len(path))
	return nfs4.OK
}
