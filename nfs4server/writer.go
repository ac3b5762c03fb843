package nfs4server

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A writer is the part of a delegated for writing: the client may change the file in
// its cache, so others ask it for the size of the file (realm.Writer).
type writer struct {
	of     *delegated
	export *realm.Exported
	handle vfs.Handle
	change uint64          // when the client got the delegation
	limit  nfs4.SpaceLimit // of the client's cache

	mu      sync.Mutex
	running *realm.Report // the client has been asked
	next    *realm.Report // the client will be asked after that, or nil
	told    vfs.Attr      // see Told; Type 0: nothing
	back    bool          // the client has returned the delegation, and may still write back
	ended   bool
}

var _ realm.Writer = (*writer)(nil)

// writes makes f a delegated for writing. The client's own changes leave f alone.
func (f *delegated) writes() {
	f.writer = &writer{of: f}
	f.holder.Mild, f.holder.Writer = true, f.writer
}

// spaceUnit is the length in bytes of the blocks in which a client counts the data that
// it may keep in its cache.
const spaceUnit = 4096

// maxSpace is the greatest length in bytes of such data of one file, and spaceParts the
// part of the free space that one delegation may take: what remains after 16 others is
// still a third.
const (
	maxSpace   = 1 << 30
	spaceParts = 16
)

// begin notes the state of the file. The change attribute is the one that the client
// reads in the same COMPOUND.
func (w *writer) begin(ctx context.Context, u *use, h vfs.Handle) error {
	w.export, w.handle = u.Export, h
	attr, err := u.Export.FS.GetAttr(ctx, &u.Cred, h)
	if err != nil {
		return err
	}
	w.change = changeOf(&attr)
	free := int64(0)
	if fs, _, err := u.Export.FS.StatFS(ctx, &u.Cred, h); err == nil {
		free = int64(min(fs.AvailBytes, maxPromise))
	}
	w.limit = nfs4.SpaceLimit{Blocks: true, BlockBytes: spaceUnit, NumBlocks: w.of.server.promise(free)}
	return nil
}

// maxPromise keeps sums of free space within int64.
const maxPromise = 1 << 60

// promise returns how many blocks a new delegation may take of the free bytes, so that
// there is room for what all clients may have in their caches (RFC 8881, Section
// 10.4.1).
func (s *Server) promise(free int64) (blocks uint32) {
	s.promising.Lock()
	defer s.promising.Unlock()
	blocks = uint32(min(max(free-s.promised, 0)/spaceParts, maxSpace) / spaceUnit)
	s.promised += int64(blocks) * spaceUnit
	return blocks
}

// end ends w: the client changes nothing any more. If others know of a change that the
// client has not written, the file's attributes change once more.
func (w *writer) end() {
	s := w.of.server
	s.promising.Lock()
	s.promised -= int64(w.limit.NumBlocks) * spaceUnit
	s.promising.Unlock()
	w.mu.Lock()
	told := w.told
	w.ended = true
	w.mu.Unlock()
	if told.Type == 0 || !w.export.Enter() {
		return
	}
	defer w.export.Leave()
	ctx := context.Background()
	var err error
	change := func() {
		var attr vfs.Attr
		attr, err = w.export.FS.GetAttr(ctx, &vfs.Cred{}, w.handle)
		if err == nil && attr.Ctime == told.Ctime && attr.Change == told.Change {
			_, err = w.export.FS.SetAttr(ctx, &vfs.Cred{}, w.handle, vfs.SetAttr{MtimeHow: vfs.SetToServer}, nil)
		}
	}
	// The permit is of nobody's party: a call that ends w may have one of its client's, and
	// whoever has one of nobody's waits for no other.
	if later := s.realm.Visit(ctx, nil, w.export, change); later != nil {
		err = later
	}
	if status, known := statusOf(err); err != nil && (!known || status != nfs4.ErrStale) {
		s.log.Warn("a client had not written what it had changed in a file, and the file's times could not be set after that", "err", err)
	}
}

// given notes that the client has returned the delegation.
func (w *writer) given() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.back = true
}

// returned reports whether given was called.
func (w *writer) returned() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.back
}

// Told implements realm.Writer.
func (w *writer) Told(a *vfs.Attr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.told = *a
	}
	return !w.ended
}

// Ask implements realm.Writer. One question is under way at a time: its answer may be
// older than a call that has come meanwhile, so all such calls wait for the next one.
func (w *writer) Ask() *realm.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		w.next = &realm.Report{Done: make(chan struct{})}
	}
	r := w.next
	if w.back { // the client knows no answer
		w.next = nil
		close(r.Done)
		return r
	}
	w.askLocked()
	return r
}

// askTime is how long a client has to answer a question. Then it must return the
// delegation.
const askTime = recall.Patience / 2

// askLocked sends the next question, unless one is under way.
func (w *writer) askLocked() {
	if w.running != nil || w.next == nil {
		return
	}
	r := w.next
	w.running, w.next = r, nil
	d := w.of.delegation
	late := time.AfterFunc(askTime, func() {
		if w.answer(r, nil) { // whether anybody still waits or not
			w.of.holder.Break()
		}
	})
	w.of.server.callbacks.add(&callback{
		client: d.ClientID(), op: nfs4.CBOpGetAttr, referring: &d.Referring, hint: true,
		args:   &nfs4.CBGetAttrArgs{Object: d.Handle(), Request: nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize)},
		wanted: func() bool { return w.asks(r) },
		taken:  func() { w.answer(r, nil) }, // unless it was answered
		answered: func(status nfs4.Status, results *xdr.Reader) {
			if status == nfs4.ErrDelay {
				return // the client is asked again
			}
			late.Stop()
			if status != nfs4.OK {
				w.answer(r, nil)
				return
			}
			var attrs nfs4.Attrs
			attrs.Decode(results)
			if results.Err() != nil || !attrs.Mask.Has(nfs4.AttrChange) || !attrs.Mask.Has(nfs4.AttrSize) {
				w.answer(r, nil)
				return
			}
			w.answer(r, &attrs)
		},
	})
}

// asks reports whether r is unanswered.
func (w *writer) asks(r *realm.Report) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running == r
}

// answer completes r, unless that was done: with the client's attributes, or with nil if
// there are none. It reports whether r was not complete.
func (w *writer) answer(r *realm.Report, attrs *nfs4.Attrs) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != r {
		return false
	}
	if attrs != nil {
		r.OK, r.Changed, r.Size = true, attrs.Change != w.change, attrs.Size
	}
	w.running = nil
	close(r.Done)
	w.askLocked()
	return true
}
