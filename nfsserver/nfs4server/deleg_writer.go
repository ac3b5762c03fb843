package nfs4server

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A delegatedWriter is the write part of a delegatedFile: the client may change the file in its
// cache, so other calls query it for the file's size (exportset.Writer).
type delegatedWriter struct {
	file       *delegatedFile
	export     *exportset.Exported
	handle     vfs.Handle
	baseChange uint64 // when the client got the delegation, as the next two
	baseAtime  vfs.Time
	baseMtime  vfs.Time
	hasTimes   bool            // the client is the authority for the times (deleg_times.go)
	limit      nfs4.SpaceLimit // for the client's cache

	mu          sync.Mutex
	inFlight    *exportset.Report // the query that was sent to the client
	queued      *exportset.Report // the query to send after that, or nil
	reported    vfs.Attr          // see Told; Type 0: nothing
	hasReturned bool              // the client has returned the delegation, and may still write back
	isEnded     bool
}

var _ exportset.Writer = (*delegatedWriter)(nil)

// addWriter makes f a write delegation, with times an attribute delegation. The client's own changes
// do not recall it.
func (f *delegatedFile) addWriter(times bool) {
	f.writer = &delegatedWriter{file: f, hasTimes: times}
	f.holder.IgnoreOwner, f.holder.Yield, f.holder.Writer = true, nil, f.writer
}

// spaceBlockLen is the length in bytes of the blocks in which the limit for cached data is
// counted.
const spaceBlockLen = 4096

// maxCachedData is the maximum length in bytes of cached data for one file. spaceDivisor
// determines the part of the free space that one delegation may take: after 16 delegations, a
// third is still free.
const (
	maxCachedData = 1 << 30
	spaceDivisor  = 16
)

// recordState records the file's state. The change attribute is the one that the client reads
// in the same COMPOUND.
func (w *delegatedWriter) recordState(ctx context.Context, u *exportUse, h vfs.Handle) error {
	w.export, w.handle = u.Export, h
	attr, err := u.Export.FS.GetAttr(ctx, &u.Cred, h)
	if err != nil {
		return err
	}
	w.baseChange, w.baseAtime, w.baseMtime = changeAttr(&attr), attr.Atime, attr.Mtime
	free := int64(0)
	if fs, _, err := u.Export.FS.StatFS(ctx, &u.Cred, h); err == nil {
		free = int64(min(fs.AvailBytes, maxFreeSpace))
	}
	w.limit = nfs4.SpaceLimit{Blocks: true, BlockBytes: spaceBlockLen, NumBlocks: w.file.server.reserveSpace(free)}
	return nil
}

// maxFreeSpace keeps sums of free space within int64.
const maxFreeSpace = 1 << 60

// reserveSpace returns the number of blocks of the free bytes that a new delegation may take,
// so that there is space for everything that clients may have in their caches (RFC 8881,
// Section 10.4.1).
func (s *Server) reserveSpace(free int64) (blocks uint32) {
	s.reserveMu.Lock()
	defer s.reserveMu.Unlock()
	blocks = uint32(min(max(free-s.reservedBytes, 0)/spaceDivisor, maxCachedData) / spaceBlockLen)
	s.reservedBytes += int64(blocks) * spaceBlockLen
	return blocks
}

// endWriting ends w: the client changes nothing any more. If other clients know about a change
// that the client has not written, the file's attributes change once more.
func (w *delegatedWriter) endWriting() {
	s := w.file.server
	s.reserveMu.Lock()
	s.reservedBytes -= int64(w.limit.NumBlocks) * spaceBlockLen
	s.reserveMu.Unlock()
	w.mu.Lock()
	reported := w.reported
	w.isEnded = true
	w.mu.Unlock()
	if reported.Type == 0 || !w.export.Enter() {
		return
	}
	defer w.export.Leave()
	ctx := context.Background()
	var err error
	change := func() {
		var attr vfs.Attr
		attr, err = w.export.FS.GetAttr(ctx, &vfs.Cred{}, w.handle)
		if err == nil && attr.Ctime == reported.Ctime && attr.Change == reported.Change {
			_, err = w.export.FS.SetAttr(ctx, &vfs.Cred{}, w.handle, vfs.SetAttr{MtimeHow: vfs.SetToServer}, nil)
		}
	}
	// The permit belongs to no client group: a call that ends w may have one from its client's
	// group, and a holder of a permit without a group waits for no other.
	if later := s.exports.RunWithPermit(ctx, nil, w.export, change); later != nil {
		err = later
	}
	if status, known := statusOf(err); err != nil && (!known || status != nfs4.ErrStale) {
		s.log.Warn("cannot update a file's times after a client discarded unwritten changes", "err", err)
	}
}

// noteReturn records that the client has returned the delegation.
func (w *delegatedWriter) noteReturn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hasReturned = true
}

// isReturned reports whether noteReturn was called.
func (w *delegatedWriter) isReturned() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hasReturned
}

// NoteReported implements exportset.Writer.
func (w *delegatedWriter) NoteReported(a *vfs.Attr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isEnded {
		w.reported = *a
	}
	return !w.isEnded
}

// Query implements exportset.Writer. Only one query is in flight: its reply may be older than a
// call that has arrived since, so all such calls wait for the next query.
func (w *delegatedWriter) Query() *exportset.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queued == nil {
		w.queued = &exportset.Report{Done: make(chan struct{})}
	}
	r := w.queued
	if w.hasReturned { // the client cannot reply to a query any more
		w.queued = nil
		close(r.Done)
		return r
	}
	w.sendQueryLocked()
	return r
}

// queryTimeout is the time that a client has to reply to a query. After that it must return the
// delegation.
const queryTimeout = recall.MaxWait / 2

// sendQueryLocked sends the next query, unless one is in flight.
func (w *delegatedWriter) sendQueryLocked() {
	if w.inFlight != nil || w.queued == nil {
		return
	}
	r := w.queued
	w.inFlight, w.queued = r, nil
	d := w.file.delegation
	request := nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize)
	if w.hasTimes {
		request = nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrTimeDelegAccess, nfs4.AttrTimeDelegModify)
	}
	timeout := time.AfterFunc(queryTimeout, func() {
		if w.completeReport(r, nil) { // even if no call waits any more
			w.file.holder.Break()
		}
	})
	w.file.server.callbacks.enqueue(&callback{
		client: d.ClientID(), op: nfs4.CBOpGetAttr, referring: &d.Referring, isHint: true,
		args:       &nfs4.CBGetAttrArgs{Object: d.Handle(), Request: request},
		isWanted:   func() bool { return w.isPending(r) },
		onAccepted: func() { w.completeReport(r, nil) }, // unless onReply has completed it
		onReply: func(status nfs4.Status, results *xdr.Reader) {
			if status == nfs4.ErrDelay {
				return // the query is sent again
			}
			timeout.Stop()
			if status != nfs4.OK {
				w.completeReport(r, nil)
				return
			}
			var attrs nfs4.Attrs
			attrs.Decode(results)
			if results.Err() != nil || !attrs.Mask.Has(nfs4.AttrChange) || !attrs.Mask.Has(nfs4.AttrSize) {
				w.completeReport(r, nil)
				return
			}
			w.completeReport(r, &attrs)
		},
	})
}

// isPending reports whether r is incomplete.
func (w *delegatedWriter) isPending(r *exportset.Report) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inFlight == r
}

// completeReport completes r, unless it is complete: with the client's attributes, or with nil
// if there are none. It reports whether it has completed r.
func (w *delegatedWriter) completeReport(r *exportset.Report, attrs *nfs4.Attrs) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inFlight != r {
		return false
	}
	if attrs != nil {
		r.OK, r.Changed, r.Size = true, attrs.Change != w.baseChange, attrs.Size
		if w.hasTimes {
			r.Atime, r.Mtime = w.boundTimes(attrs)
		}
	}
	w.inFlight = nil
	close(r.Done)
	w.sendQueryLocked()
	return true
}
