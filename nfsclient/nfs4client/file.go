package nfs4client

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// OpenFlags say how a file is opened.
type OpenFlags struct {
	Read, Write bool

	// DenyRead and DenyWrite prevent other opens for that purpose (RFC 8881,
	// Section 9.7).
	DenyRead, DenyWrite bool

	// Create creates a file that does not exist, with permissions Mode. If
	// Exclusive is set, an existing file is an error.
	Create, Exclusive bool
	Mode              uint32
}

// A File is an open file. Its methods are safe for concurrent use.
type File struct {
	session *Session
	fh      nfs4.FH
	share   uint32
	deny    uint32
	owner   [8]byte // open-owner and lock-owner: one per File, because CLOSE closes all of an owner's opens

	mu      sync.Mutex
	stateID nfs4.StateID
	epoch   uint64    // the epoch of the client ID that stateID belongs to
	err     error     // if not nil, the file is lost
	locks   heldLocks // mu guards all fields but sem
}

func (s *Session) newFile(flags OpenFlags) *File {
	f := &File{session: s}
	_, _ = rand.Read(f.owner[:])
	f.locks.initLocks()
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

// Open opens the file called name in a directory. The File must be closed. If
// ctx ends, Open returns immediately. If the server opens the file nevertheless,
// it is closed when the reply arrives. If the connection is lost before, the
// server may keep the file open until the Session is closed.
func (s *Session) Open(ctx context.Context, dir nfs4.FH, name string, flags OpenFlags) (*File, error) {
	if ctx.Done() == nil {
		return s.openFile(ctx, dir, name, flags)
	}
	type result struct {
		f   *File
		err error
	}
	opened := make(chan result)
	dir = slices.Clone(dir)
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	s.background.Go(func() {
		f, err := s.openFile(ctx, dir, name, flags)
		select {
		case opened <- result{f, err}:
		case <-ctx.Done():
			s.closeUnwanted(f)
		}
	})
	s.mu.Unlock()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// closeUnwanted closes a file whose opener has gone, unless it is nil.
func (s *Session) closeUnwanted(f *File) {
	if f == nil {
		return
	}
	if err := f.Close(s.ctx); err != nil && s.ctx.Err() == nil {
		s.cfg.Log.Warn("cannot close a file after its open was interrupted", "err", err)
	}
}

// openFile opens a file. If ctx ends, it waits for the reply to an OPEN that it has sent.
func (s *Session) openFile(ctx context.Context, dir nfs4.FH, name string, flags OpenFlags) (*File, error) {
	f := s.newFile(flags)
	args := f.newOpenArgs(nfs4.ClaimNull)
	args.Name = []byte(name)
	if flags.Create {
		args.How = nfs4.Unchecked
		if flags.Exclusive {
			args.How = nfs4.Guarded
		}
		args.Attrs.Mask, args.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), flags.Mode
	}
	c := s.getCompound()
	defer s.putCompound(c)
	var opened nfs4.OpenRes
	var fh nfs4.HandleRes
	c.outlastsCaller = true
	c.PutFH(dir)
	c.Add(nfs4.OpOpen, &args, &opened)
	c.GetFH(&fh)
	if err := s.Do(ctx, c); err != nil {
		return nil, err
	}
	f.stateID, f.fh, f.epoch = opened.StateID, append(nfs4.FH(nil), fh.Object...), c.epoch
	for !s.registerFile(f) {
		if err := f.openByHandle(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// registerFile adds a file to those that are reclaimed after the server
// restarts. It returns false if the server has restarted since f was opened,
// because the reclaim may have begun without the file.
func (s *Session) registerFile(f *File) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listedEpoch.Load() != f.epoch {
		return false
	}
	s.files[f] = struct{}{}
	return true
}

// openByHandle opens an unregistered file again by its handle.
func (f *File) openByHandle(ctx context.Context) error {
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	args, opened := f.newOpenArgs(nfs4.ClaimFH), nfs4.OpenRes{}
	c.outlastsCaller = true
	c.PutFH(f.fh)
	c.Add(nfs4.OpOpen, &args, &opened)
	err := f.session.Do(ctx, c)
	f.stateID, f.epoch = opened.StateID, c.epoch
	return err
}

// newOpenArgs returns OPEN's arguments for f.
func (f *File) newOpenArgs(claim nfs4.Claim) nfs4.OpenArgs {
	return nfs4.OpenArgs{
		ShareAccess: f.share | nfs4.WantNoDeleg, ShareDeny: f.deny, Owner: nfs4.StateOwner{Owner: f.owner[:]}, How: nfs4.NoCreate, Claim: claim,
	}
}

// reclaimOpen opens f again by its handle, and reclaims its locks. If the locks
// are lost, the error is ErrLockLost: f must not be used, because its user
// would not notice that others have changed the file.
func (f *File) reclaimOpen(ctx context.Context, g *sessionState, claim nfs4.Claim) error {
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	args, opened := f.newOpenArgs(claim), nfs4.OpenRes{}
	if claim == nfs4.ClaimPrevious {
		args.ShareAccess = f.share // a reclaim must not have want flags
	}
	c.PutFH(f.fh)
	c.Add(nfs4.OpOpen, &args, &opened)
	err := f.session.doInSession(ctx, g, c)
	if isStatusError(err) && f.hasLocks() {
		return lockLostError(err)
	}
	if err != nil {
		return err
	}
	lock, err := f.reclaimLocks(ctx, g, opened.StateID)
	if isStatusError(err) {
		return errors.Join(f.closeOpen(ctx, g, opened.StateID), lockLostError(err))
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stateID, f.locks.stateID, f.epoch, f.err = opened.StateID, lock, g.epoch, nil
	return nil
}

// openState returns the open's stateid, its epoch, and the error if f is lost.
func (f *File) openState() (nfs4.StateID, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stateID, f.epoch, f.err
}

// Handle returns the file's handle, which must not be changed.
func (f *File) Handle() nfs4.FH { return f.fh }

// doWithState executes the COMPOUND that build adds to PUTFH with the stateid
// from state, and repeats it if f's stateids were replaced.
func (f *File) doWithState(ctx context.Context, c *Compound, state func() (nfs4.StateID, uint64, error), build func(id nfs4.StateID)) error {
	for {
		id, epoch, err := state()
		if err != nil {
			return err
		}
		c.Reset()
		c.PutFH(f.fh)
		build(id)
		if err = f.session.Do(ctx, c); err == nil || !f.isStateReplaced(err, epoch) {
			return err
		}
	}
}

// ioState returns the stateid for I/O, its epoch, and the error if f is lost.
// Once f has locked bytes, it is the locks' stateid, so that the server rejects
// I/O for which f no longer has the locks (RFC 8881, Section 8.2.5).
func (f *File) ioState() (nfs4.StateID, uint64, error) {
	open, lock, epoch, err := f.lockState()
	if lock != (nfs4.StateID{}) {
		return latestStateID(lock), epoch, err
	}
	return latestStateID(open), epoch, err
}

// isStateReplaced reports whether err rejects a stateid from an earlier client
// ID, and f has another stateid by now, or is lost.
func (f *File) isStateReplaced(err error, epoch uint64) bool {
	_, now, _ := f.openState()
	return now != epoch && hasStatus(err, nfs4.ErrBadStateID, nfs4.ErrStaleStateID)
}

// latestStateID returns id with the seqid 0, which means the most recent one
// (RFC 8881, Section 8.2.2).
func latestStateID(id nfs4.StateID) nfs4.StateID {
	id.SeqID = 0
	return id
}

// ReadAt reads at most MaxRead bytes into p from offset off with one READ. The
// error is io.EOF if the data reach the end of the file.
func (f *File) ReadAt(ctx context.Context, p []byte, off uint64) (int, error) {
	p = p[:min(len(p), f.session.MaxRead())]
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	for {
		id, epoch, err := f.ioState()
		if err != nil {
			return 0, err
		}
		c.Reset()
		c.PutFH(f.fh)
		c.Read(id, off, p, &c.readRes)
		err = f.session.Do(ctx, c)
		switch {
		case err == nil && c.readRes.EOF:
			return len(c.readRes.Data), io.EOF
		case err == nil:
			return len(c.readRes.Data), nil
		case !f.isStateReplaced(err, epoch):
			return 0, err
		}
	}
}

// WriteAt writes at most MaxWrite bytes of data at offset off with one WRITE.
// WriteAt returns the number of bytes written, their stability, and the
// server's write verifier.
func (f *File) WriteAt(ctx context.Context, data []byte, off uint64, stable nfs4.Stable) (nfs4.WriteRes, error) {
	data = data[:min(len(data), f.session.MaxWrite())]
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	for {
		id, epoch, err := f.ioState()
		if err != nil {
			return nfs4.WriteRes{}, err
		}
		c.Reset()
		c.PutFH(f.fh)
		c.Write(id, off, data, stable, &c.writeRes)
		err = f.session.Do(ctx, c)
		switch {
		case err == nil && c.writeRes.Count > uint32(len(data)):
			return nfs4.WriteRes{}, replyError("WRITE: %d bytes written of %d", c.writeRes.Count, len(data))
		case err == nil && c.writeRes.Count == 0 && len(data) > 0:
			return nfs4.WriteRes{}, replyError("WRITE: NFS4_OK, but nothing was written")
		case err == nil && c.writeRes.Committed < stable:
			return nfs4.WriteRes{}, replyError("WRITE: stable_how4 is %d, but %d was requested", c.writeRes.Committed, stable)
		case err == nil:
			return c.writeRes, nil
		case !f.isStateReplaced(err, epoch):
			return nfs4.WriteRes{}, err
		}
	}
}

// Commit puts the written data on stable storage, and returns the write
// verifier. If it differs from a WRITE's verifier, the server may have lost
// that WRITE's data.
func (f *File) Commit(ctx context.Context) (nfs4.Verifier, error) {
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	var res nfs4.CommitRes
	c.PutFH(f.fh)
	c.Add(nfs4.OpCommit, &nfs4.CommitArgs{}, &res)
	err := f.session.Do(ctx, c)
	return res.Verf, err
}

// Truncate sets the file's size in bytes.
func (f *File) Truncate(ctx context.Context, size uint64) error {
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	args := nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size}}
	return f.doWithState(ctx, c, f.ioState, func(id nfs4.StateID) {
		args.StateID = id
		c.Add(nfs4.OpSetAttr, &args, new(nfs4.SetAttrRes))
	})
}

// Close closes the file, and releases its locks. The File must not be used
// afterwards, even after an error.
func (f *File) Close(ctx context.Context) error {
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	build := func(id nfs4.StateID) {
		c.Add(nfs4.OpClose, &nfs4.CloseArgs{StateID: id}, new(nfs4.StateIDRes))
	}
	for {
		err := f.doWithState(ctx, c, f.openState, build)
		for errors.Is(err, ErrUncertain) {
			if err = f.doWithState(ctx, c, f.openState, build); hasStatus(err, nfs4.ErrBadStateID) {
				err = nil // the file was closed
			}
		}
		if f.session.unregisterFile(f, c.epoch, err) {
			return err
		}
	}
}

// unregisterFile removes f from the open files after a CLOSE in an epoch. It
// returns false if the server has restarted since, because f may have been
// reclaimed.
func (s *Session) unregisterFile(f *File, epoch uint64, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.listedEpoch.Load() != epoch {
		return false
	}
	delete(s.files, f)
	return true
}
