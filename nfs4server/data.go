package nfs4server

import (
	"context"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// mayUse checks the stateid of READ, WRITE or SETATTR of the size: the open
// that it stands for must be of the current object, and for the given access.
// Without an open, no other may deny it (RFC 8881, Sections 8.2.3 and 9.7).
func (x *compound) mayUse(id *nfs4.StateID, access uint32) nfs4.Status {
	key, err := x.key(&x.current)
	if err != nil {
		return x.status(err)
	}
	switch *id {
	case nfs4.CurrentStateID:
		if !x.current.stated {
			return nfs4.ErrBadStateID
		}
		current := x.current.stateid
		current.SeqID = 0
		return x.mayUse(&current, access)
	case nfs4.BypassStateID:
		if access == nfs4.ShareRead {
			return nfs4.OK
		}
		fallthrough
	case nfs4.AnonymousStateID:
		if x.server.state.Denied(string(key), access) {
			return nfs4.ErrLocked
		}
		return nfs4.OK
	}
	o, status := x.server.state.Open(x.session, id)
	switch {
	case status != nfs4.OK:
		return status
	case o.Key != string(key):
		return nfs4.ErrBadStateID
	case o.Access()&access == 0:
		return nfs4.ErrOpenMode
	}
	return nfs4.OK
}

// maySize is mayUse for SETATTR of the size.
func (x *compound) maySize(ctx context.Context, id *nfs4.StateID) nfs4.Status {
	attr, status := x.attr(ctx, &x.current)
	if status != nfs4.OK {
		return status
	}
	if status := regular(&attr); status != nfs4.OK {
		if status == nfs4.ErrIsDir {
			return status
		}
		return nfs4.ErrInval
	}
	return x.mayUse(id, nfs4.ShareWrite)
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

// read is READ (RFC 8881, Section 18.22). The data of the first READ are the
// reply's data item; those of a second are inline (RFC 8267, Section 6.4.1).
func read(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.ReadArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.file(ctx); status != nfs4.OK {
		return status
	}
	if status := x.mayUse(&a.StateID, nfs4.ShareRead); status != nfs4.OK {
		return status
	}
	count := x.server.realm.ReadCount(a.Offset, a.Count, x.left()-readHead)
	res := &x.results.read
	*res = nfs4.ReadRes{}
	var status nfs4.Status
	switch {
	case x.split:
		status = x.readInline(ctx, &a, count)
	case x.lend(ctx, &a, count):
		status = res.Status
	default:
		status = x.readItem(ctx, &a, count)
	}
	if status != nfs4.OK {
		return status
	}
	if !x.split {
		x.out = res.AppendTo(x.out)
		x.reply.Head, x.out, x.split = x.out, nil, true
	}
	return nfs4.OK
}

// readAt reads into p.
func (x *compound) readAt(ctx context.Context, a *nfs4.ReadArgs, p []byte) (n int, eof bool, err error) {
	u, off := x.current.use, a.Offset
	if off > realm.MaxFileSize { // past the end of every file: only check permission
		off = 0
	}
	n, eof, _, err = u.Export.FS.Read(ctx, &u.Cred, x.current.h, p, off)
	return n, eof || a.Offset > realm.MaxFileSize, err
}

// readItem reads into the reply's data item.
func (x *compound) readItem(ctx context.Context, a *nfs4.ReadArgs, count int) nfs4.Status {
	r := x.reply
	x.current.use.Rest() // NewItem may wait
	p := r.NewItem(count)
	if err := x.work(ctx, &x.current); err != nil {
		r.DropItem()
		return x.status(err)
	}
	n, eof, err := x.readAt(ctx, a, p)
	if err != nil {
		r.DropItem()
		return x.dataStatus(ctx, err)
	}
	r.Item.B = p[:n]
	x.results.read.EOF, x.results.read.Count = eof, uint32(n)
	return nfs4.OK
}

// readInline reads into the results.
func (x *compound) readInline(ctx context.Context, a *nfs4.ReadArgs, count int) nfs4.Status {
	p := make([]byte, count)
	n, eof, err := x.readAt(ctx, a, p)
	if err != nil {
		return x.dataStatus(ctx, err)
	}
	res := nfs4.ReadRes{EOF: eof, Count: uint32(n)}
	x.out = xdr.AppendFixed(res.AppendTo(x.out), p[:n])
	return nfs4.OK
}

// lend reads without a copy, if the file system, the transport and the data
// permit it. It sets the result's status.
func (x *compound) lend(ctx context.Context, a *nfs4.ReadArgs, count int) bool {
	u, r := x.current.use, x.reply
	if !r.Mappable || u.Export.Mapper == nil || a.Offset > realm.MaxFileSize || x.i+1 < x.n || x.keep {
		return false // nothing may follow what Cut changes, and nothing may copy what it covers
	}
	item, eof, _, err := u.Export.Mapper.Map(ctx, &u.Cred, x.current.h, a.Offset, count)
	if item == nil && err == nil {
		return false
	}
	res := &x.results.read
	if res.Status = x.dataStatus(ctx, err); err == nil {
		r.DropItem()
		r.Item, r.Cut = item, cutRead
		res.EOF, res.Count = eof, uint32(len(item.B))
	}
	return true
}

// cutRead changes the head of a reply that ends with a READ of which only n
// bytes of data could be sent. Without an error the file ends there. With an
// error, the client asks for the rest and gets the error then; if n is 0 the
// reply must carry the error itself.
func cutRead(head []byte, n int, err error) []byte {
	ok := head[len(head)-12:] // status, eof, length
	if n == 0 && err != nil {
		status, _ := statusOf(err)
		binary.BigEndian.PutUint32(ok, uint32(status))
		return head[:len(head)-8]
	}
	eof := uint32(0)
	if err == nil {
		eof = 1
	}
	binary.BigEndian.PutUint32(ok[4:], eof)
	binary.BigEndian.PutUint32(ok[8:], uint32(n))
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
	if status == nfs4.OK {
		status = x.mayUse(&a.StateID, nfs4.ShareWrite)
	}
	if status != nfs4.OK {
		return status
	}
	data := a.Data[:min(len(a.Data), x.server.realm.Payload())]
	if a.Offset > realm.MaxFileSize || uint64(len(data)) > realm.MaxFileSize-a.Offset {
		return nfs4.ErrFBig
	}
	u, h := x.current.use, x.current.h
	if err := u.BeforeWrite(ctx, h); err != nil {
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
	n, done, _, err := u.Export.FS.Write(ctx, &u.Cred, h, data, a.Offset, vfs.Stable(how))
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
	if status := x.mayChange(&x.current); status != nfs4.OK {
		return status
	}
	if a.Offset+uint64(a.Count) < a.Offset {
		return nfs4.ErrInval
	}
	u, h := x.current.use, x.current.h
	var err error
	if u.Options.Async {
		_, err = u.Export.FS.GetAttr(ctx, &u.Cred, h)
	} else {
		if a.Offset > realm.MaxFileSize || uint64(a.Count) > realm.MaxFileSize-a.Offset {
			a.Offset, a.Count = 0, 0 // no file has such a range: commit the whole file
		}
		_, err = u.Export.FS.Commit(ctx, &u.Cred, h, a.Offset, a.Count)
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

// readLink is READLINK (RFC 8881, Section 18.24). The path is a data item of
// the reply, unless a READ has come before.
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
	if x.left() < minResult+4+len(path)+xdr.Pad(len(path)) {
		return x.tooBig()
	}
	x.out = res.AppendTo(x.out)
	if x.split {
		x.out = xdr.AppendFixed(x.out, res.Link)
		return nfs4.OK
	}
	u.Rest() // NewItem may wait
	copy(x.reply.NewItem(len(path)), path)
	x.reply.Head, x.out, x.split = x.out, nil, true
	return nfs4.OK
}
