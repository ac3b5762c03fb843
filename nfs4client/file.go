package nfs4client

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// OpenFlags are the purposes for which a file is opened.
type OpenFlags struct {
	Read, Write bool

	// DenyRead and DenyWrite keep all others from opening the file for that
	// purpose (RFC 8881, Section 9.7).
	DenyRead, DenyWrite bool

	// Create creates a file that does not exist, with permissions Mode.
	// Exclusive makes an existing file an error.
	Create, Exclusive bool
	Mode              uint32
}

// A File is an open file. Its methods are safe for concurrent use.
type File struct {
	s     *Session
	fh    nfs4.FH
	share uint32
	deny  uint32
	owner [8]byte // open-owner and lock-owner: one for each File, because CLOSE ends all opens of an owner

	mu    sync.Mutex
	id    nfs4.StateID
	epoch uint64 // of the client ID to which id belongs
	err   error  // the file is lost
	held  held   // all but held.turn
}

func (s *Session) newFile(flags OpenFlags) *File {
	f := &File{s: s}
	_, _ = rand.Read(f.owner[:])
	f.held.init()
	f.share, f.deny = shareBits(flags.Read, flags.Write), shareBits(flags.DenyRead, flags.DenyWrite)
	return f
}

// shareBits returns the bits of OPEN4_SHARE_ACCESS or OPEN4_SHARE_DENY.
func shareBits(read, write bool) (bits uint32) {
	if read {
		bits |= nfs4.ShareRead
	}
	if write {
		bits |= nfs4.ShareWrite
	}
	return bits
}

// Open opens a file of that name in a directory. The File must be closed.
func (s *Session) Open(ctx context.Context, dir nfs4.FH, name string, flags OpenFlags) (*File, error) {
	f := s.newFile(flags)
	args := f.openArgs(nfs4.ClaimNull)
	args.Name = []byte(name)
	if flags.Create {
		args.How = nfs4.Unchecked
		if flags.Exclusive {
			args.How = nfs4.Guarded
		}
		args.Attrs.Mask, args.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), flags.Mode
	}
	c := s.compound()
	defer s.put(c)
	var opened nfs4.OpenRes
	var fh nfs4.HandleRes
	c.PutFH(dir)
	c.Add(nfs4.OpOpen, &args, &opened)
	c.GetFH(&fh)
	if err := s.Do(ctx, c); err != nil {
		return nil, err
	}
	f.id, f.fh, f.epoch = opened.StateID, append(nfs4.FH(nil), fh.Object...), c.epoch
	for !s.register(f) {
		if err := f.openAgain(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// register makes a file known, so that it is reclaimed after a restart of the
// server. It refuses that after such a restart: the reclaim may have begun
// without the file.
func (s *Session) register(f *File) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed.Load() != f.epoch {
		return false
	}
	s.files[f] = struct{}{}
	return true
}

// openAgain opens a file that is not registered with its handle.
func (f *File) openAgain(ctx context.Context) error {
	c := f.s.compound()
	defer f.s.put(c)
	args, opened := f.openArgs(nfs4.ClaimFH), nfs4.OpenRes{}
	c.PutFH(f.fh)
	c.Add(nfs4.OpOpen, &args, &opened)
	err := f.s.Do(ctx, c)
	f.id, f.epoch = opened.StateID, c.epoch
	return err
}

// openArgs returns the arguments of OPEN for f.
func (f *File) openArgs(claim nfs4.Claim) nfs4.OpenArgs {
	return nfs4.OpenArgs{
		ShareAccess: f.share | nfs4.WantNoDeleg, ShareDeny: f.deny, Owner: nfs4.StateOwner{Owner: f.owner[:]}, How: nfs4.NoCreate, Claim: claim,
	}
}

// reopen opens f again with its handle, and reclaims its locks. Without them, f
// is of no use: its user would not know that others have changed the file. The
// error is then ErrLockLost.
func (f *File) reopen(ctx context.Context, g *generation, claim nfs4.Claim) error {
	c := f.s.compound()
	defer f.s.put(c)
	args, opened := f.openArgs(claim), nfs4.OpenRes{}
	if claim == nfs4.ClaimPrevious {
		args.ShareAccess = f.share // a reclaim has no wishes
	}
	c.PutFH(f.fh)
	c.Add(nfs4.OpOpen, &args, &opened)
	err := f.s.within(ctx, g, c)
	if refused(err) && f.locked() {
		return lockLost(err)
	}
	if err != nil {
		return err
	}
	lock, err := f.relock(ctx, g, opened.StateID)
	if refused(err) {
		return errors.Join(f.release(ctx, g, opened.StateID), lockLost(err))
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id, f.held.id, f.epoch, f.err = opened.StateID, lock, g.epoch, nil
	return nil
}

// state returns the stateid.
func (f *File) state() (nfs4.StateID, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id, f.epoch, f.err
}

// Handle returns the file's handle, which must not be changed.
func (f *File) Handle() nfs4.FH { return f.fh }

// do executes calls with f's stateid.
func (f *File) do(ctx context.Context, c *Compound, build func(id nfs4.StateID)) error {
	for {
		id, epoch, err := f.state()
		if err != nil {
			return err
		}
		c.Reset()
		c.PutFH(f.fh)
		build(id)
		if err = f.s.Do(ctx, c); err == nil || !f.renewed(err, epoch) {
			return err
		}
	}
}

// renewed reports whether err refuses a stateid of an earlier client ID, while
// f has another stateid by now, or is lost.
func (f *File) renewed(err error, epoch uint64) bool {
	_, now, _ := f.state()
	return now != epoch && statusIs(err, nfs4.ErrBadStateID, nfs4.ErrStaleStateID)
}

// current makes id stand for the open at any time: a seqid of 0 (RFC 8881,
// Section 8.2.2).
func current(id nfs4.StateID) nfs4.StateID {
	id.SeqID = 0
	return id
}

// ReadAt reads into p at offset off with one READ, of at most MaxRead bytes.
// The error is io.EOF if the file ends with the data.
func (f *File) ReadAt(ctx context.Context, p []byte, off uint64) (int, error) {
	p = p[:min(len(p), f.s.MaxRead())]
	c := f.s.compound()
	defer f.s.put(c)
	for {
		id, epoch, err := f.state()
		if err != nil {
			return 0, err
		}
		c.Reset()
		c.PutFH(f.fh)
		c.Read(current(id), off, p, &c.got)
		err = f.s.Do(ctx, c)
		switch {
		case err == nil && c.got.EOF:
			return len(c.got.Data), io.EOF
		case err == nil:
			return len(c.got.Data), nil
		case !f.renewed(err, epoch):
			return 0, err
		}
	}
}

// WriteAt writes data at offset off with one WRITE, of at most MaxWrite bytes.
// WriteAt returns the number of bytes written, their stability, and the
// server's write verifier.
func (f *File) WriteAt(ctx context.Context, data []byte, off uint64, stable nfs4.Stable) (nfs4.WriteRes, error) {
	data = data[:min(len(data), f.s.MaxWrite())]
	c := f.s.compound()
	defer f.s.put(c)
	for {
		id, epoch, err := f.state()
		if err != nil {
			return nfs4.WriteRes{}, err
		}
		c.Reset()
		c.PutFH(f.fh)
		c.Write(current(id), off, data, stable, &c.put)
		err = f.s.Do(ctx, c)
		switch {
		case err == nil && c.put.Count > uint32(len(data)):
			return nfs4.WriteRes{}, bad("WRITE: %d bytes written of %d", c.put.Count, len(data))
		case err == nil && c.put.Count == 0 && len(data) > 0:
			return nfs4.WriteRes{}, bad("WRITE: NFS4_OK, but nothing was written")
		case err == nil && c.put.Committed < stable:
			return nfs4.WriteRes{}, bad("WRITE: stable_how4 %d, but %d was asked for", c.put.Committed, stable)
		case err == nil:
			return c.put, nil
		case !f.renewed(err, epoch):
			return nfs4.WriteRes{}, err
		}
	}
}

// Commit puts the written data on stable storage, and returns the write
// verifier. If the verifier differs from the verifier of a WRITE, the server
// may have lost the data of that WRITE.
func (f *File) Commit(ctx context.Context) (nfs4.Verifier, error) {
	c := f.s.compound()
	defer f.s.put(c)
	var res nfs4.CommitRes
	c.PutFH(f.fh)
	c.Add(nfs4.OpCommit, &nfs4.CommitArgs{}, &res)
	err := f.s.Do(ctx, c)
	return res.Verf, err
}

// Truncate sets the size in bytes.
func (f *File) Truncate(ctx context.Context, size uint64) error {
	c := f.s.compound()
	defer f.s.put(c)
	args := nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size}}
	return f.do(ctx, c, func(id nfs4.StateID) {
		args.StateID = current(id)
		c.Add(nfs4.OpSetAttr, &args, new(nfs4.SetAttrRes))
	})
}

// Close closes the file, and ends its locks. The File must not be used
// afterwards, even after an error.
func (f *File) Close(ctx context.Context) error {
	c := f.s.compound()
	defer f.s.put(c)
	build := func(id nfs4.StateID) {
		c.Add(nfs4.OpClose, &nfs4.CloseArgs{StateID: id}, new(nfs4.StateIDRes))
	}
	for {
		err := f.do(ctx, c, build)
		for errors.Is(err, ErrUncertain) {
			if err = f.do(ctx, c, build); statusIs(err, nfs4.ErrBadStateID) {
				err = nil // the file was closed
			}
		}
		if f.s.forget(f, c.epoch, err) {
			return err
		}
	}
}

// forget removes f from the files that are open after a CLOSE in an epoch. It
// refuses that if a server that has restarted since may have given f back.
func (s *Session) forget(f *File, epoch uint64, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.listed.Load() != epoch {
		return false
	}
	delete(s.files, f)
	return true
}
