package fusefs

import (
	"context"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// An op is one request of the kernel under way, and the context of the calls
// that it causes. It ends before its time only as ops says.
type op struct {
	m      *Mount
	from   fuse.Caller
	cancel <-chan struct{} // closed when the process got a signal, or the mount went away
	unique uint64          // the kernel's number of it
	place  int             // in ops
	dirs   [2]*node        // in which it changes names; nil: none
	gone   chan struct{}
}

// changes notes in which directories the request changes names.
func (o *op) changes(dirs ...*node) {
	copy(o.dirs[:], dirs)
	for _, d := range dirs {
		d.changing(+1)
	}
}

// who returns who made the request.
func (o *op) who() *caller { return o.m.callers.of(&o.from) }

// c returns the Client that calls in the name of who made the request.
func (o *op) c() *nfsclient.Client { return o.who().client }

// Deadline implements context.Context.
func (o *op) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (o *op) Done() <-chan struct{} { return o.gone }

// Value implements context.Context.
func (o *op) Value(any) any { return nil }

// Err implements context.Context.
func (o *op) Err() error {
	select {
	case <-o.gone:
		return context.Canceled
	default:
		return nil
	}
}

// begin makes an op of a request. Who gets it calls end, after which another
// request may have it.
func (m *Mount) begin(cancel <-chan struct{}, h *fuse.InHeader) *op {
	m.answers.next(h.Pid)
	return m.ops.add(op{m: m, from: h.Caller, unique: h.Unique, cancel: cancel})
}

func (m *Mount) end(o *op) {
	for _, d := range o.dirs {
		if d != nil {
			d.changing(-1)
		}
	}
	m.ops.remove(o)
}

// ops are the requests under way. A signal alone ends none of them: programs do
// not expect that of a disk. But who is being killed does not wait for a server
// that is silent, as with Linux's hard mounts, and nobody does when the mount
// was taken away by force.
type ops struct {
	mu   sync.Mutex
	all  []*op
	free []*op // that did not end before their time
}

// add notes a request that begins, and gives it a place and a gone.
func (s *ops) add(request op) *op {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o *op
	if last := len(s.free) - 1; last >= 0 {
		o, s.free = s.free[last], s.free[:last]
	} else {
		o = &op{gone: make(chan struct{})}
	}
	request.gone, request.place = o.gone, len(s.all)
	*o = request
	s.all = append(s.all, o)
	return o
}

func (s *ops) remove(o *op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.all) - 1
	s.all[o.place] = s.all[last]
	s.all[o.place].place = o.place
	s.all[last] = nil
	s.all = s.all[:last]
	if len(s.free) < maxBackground && o.Err() == nil {
		s.free = append(s.free, o)
	}
}

// end ends those that need not wait any more.
func (s *ops) end(aborted func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.all) > 0 && aborted() // now there is still a connection to look at
	for _, o := range s.all {
		if o.Err() == nil && (all || o.interrupted() && killed(o.from.Pid)) {
			close(o.gone)
		}
	}
}

// interrupted tells whether the process got a signal since it made the request.
func (o *op) interrupted() bool {
	select {
	case <-o.cancel:
		return true
	default:
		return false
	}
}

// watch looks after the requests until stop.
func (m *Mount) watch(stop <-chan struct{}) {
	t := time.NewTicker(killPoll)
	defer t.Stop()
	rest := time.NewTicker(restPoll)
	defer rest.Stop()
	for {
		select {
		case <-stop:
			return
		case <-rest.C:
			m.rest()
			m.landings.rest()
		case <-t.C:
		}
		if !m.cfg.Up() {
			m.ops.end(m.aborted)
		}
	}
}
