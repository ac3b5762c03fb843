package report

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Limits for requests for an export's free space.
const (
	spaceTimeout = 500 * time.Millisecond // for all exports together
	spaceFresh   = 2 * time.Second        // an answer this recent is used again
)

// A SpaceReader reads the free space of exports. A file system that does not respond delays its
// caller for a bounded time, and has at most one request. The zero value is ready for use.
type SpaceReader struct {
	mu     sync.Mutex
	byPath map[string]*spaceRequest
}

// A spaceRequest is the last request for an export's space.
type spaceRequest struct {
	export *exportset.Exported
	began  time.Time
	done   chan struct{} // closed when stat and err are set
	stat   vfs.FSStat
	err    error
	last   *Space // the last known space, from an earlier request
}

// A Space describes the size of an export's file system, and its free space for users.
type Space struct {
	Bytes          uint64 `json:"bytes"`
	AvailableBytes uint64 `json:"available_bytes"`
	Files          uint64 `json:"files"` // inodes; 0: the file system has no limit, or does not tell
	AvailableFiles uint64 `json:"available_files"`

	// Responds is false if the file system has not responded in time, or with an error. The sizes
	// are then the last known ones, or 0.
	Responds bool `json:"responds"`
}

// ReadSpace returns the space of each export. The result for an export that is unavailable or
// removed is nil.
func (r *SpaceReader) ReadSpace(list []*exportset.Exported) []*Space {
	requests := r.beginRequests(list)
	timeout := time.NewTimer(spaceTimeout)
	defer timeout.Stop()
	late := false
	all := make([]*Space, len(list))
	for i, q := range requests {
		if q == nil {
			continue
		}
		if !late {
			select {
			case <-q.done:
			case <-timeout.C:
				late = true
			}
		}
		all[i] = q.space()
	}
	return all
}

// beginRequests returns a request for each export that is served, and forgets all others.
func (r *SpaceReader) beginRequests(list []*exportset.Exported) []*spaceRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	before := r.byPath
	r.byPath = make(map[string]*spaceRequest, len(list))
	requests := make([]*spaceRequest, len(list))
	for i, e := range list {
		q := before[e.Path]
		if q == nil || !e.SharesFS(q.export) || q.isDone() && now.Sub(q.began) >= spaceFresh {
			q = beginSpaceRequest(e, q)
		}
		if q != nil {
			r.byPath[e.Path], requests[i] = q, q
		}
	}
	return requests
}

// beginSpaceRequest begins a request that replaces an earlier one. It returns nil for an export
// that is not served.
func beginSpaceRequest(e *exportset.Exported, before *spaceRequest) *spaceRequest {
	if _, unavailable := e.FS.(exportset.Unavailable); unavailable || !e.Enter() {
		return nil
	}
	q := &spaceRequest{export: e, began: time.Now(), done: make(chan struct{})}
	if before != nil && e.SharesFS(before.export) {
		q.last = before.space()
	}
	go func() {
		defer close(q.done)
		defer e.Leave() // first: until then it is a call in flight
		q.stat, _, q.err = e.FS.StatFS(context.Background(), new(vfs.Cred), e.FS.Root())
	}()
	return q
}

func (q *spaceRequest) isDone() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// space returns the space, as far as known.
func (q *spaceRequest) space() *Space {
	if q.isDone() && q.err == nil {
		s := &q.stat
		return &Space{Bytes: s.TotalBytes, AvailableBytes: s.AvailBytes, Files: s.TotalFiles, AvailableFiles: s.AvailFiles, Responds: true}
	}
	last := Space{}
	if q.last != nil {
		last = *q.last
	}
	last.Responds = false
	return &last
}
