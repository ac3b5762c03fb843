package fusefs

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// An op is an in-flight FUSE request, and the context for the calls that it causes.
// An op is canceled only as ops describes; calls already made then continue.
type op struct {
	m      *Mount
	from   fuse.Caller
	unique uint64          // the kernel's number for the request
	cancel <-chan struct{} // closed when the process gets a signal or the mount ends
	index  int             // index in ops.all
	dirs   [2]*node        // directories in which the request changes names; nil: none
	done   chan struct{}
	calls  callContext

	// Guarded by ops.mu.
	closes   bool    // the request is FLUSH, or the unlock for RELEASE: an exiting process gets no signal
	polls    int     // number of polls by watchRequests since the interruption
	answered bool    // the kernel has already received the reply EINTR
	touched  []*node // nodes that the server may change

	// Owned by the goroutine that handles the request. If the kernel does not
	// accept the reply, undoReply undoes these.
	referred     []*node
	openedHandle uint64    // number of the new file or directory handle; 0: none
	createdName  givenName // name that the server may have created
}

// A givenName is a name that a request gives to an object.
type givenName struct {
	dir  *node
	name string
}

// callContext is the context for an op's calls.
type callContext struct {
	context.Context
	ended chan struct{}
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} { return c.ended }

// Err implements context.Context.
func (c *callContext) Err() error {
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

// recordNameChanges records the directories in which the request changes names.
func (o *op) recordNameChanges(dirs ...*node) {
	copy(o.dirs[:], dirs)
	for _, d := range dirs {
		d.addNameChanges(+1)
	}
	o.recordMayChange(dirs...)
}

// requestCaller returns the caller that made the request.
func (o *op) requestCaller() *caller { return o.m.callers.findCaller(&o.from) }

// callerClient returns the Client that sends calls with the caller's identity.
func (o *op) callerClient() *nfsclient.Client { return o.requestCaller().client }

// Deadline implements context.Context.
func (o *op) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (o *op) Done() <-chan struct{} { return o.done }

// Value implements context.Context.
func (o *op) Value(key any) any {
	if key == (nfsclient.Calls{}) {
		return &o.calls
	}
	return nil
}

// Err implements context.Context.
func (o *op) Err() error {
	select {
	case <-o.done:
		return context.Canceled
	default:
		return nil
	}
}

// beginRequest creates an op for a request. The caller must call endRequest;
// afterwards another request may reuse the op.
func (m *Mount) beginRequest(cancel <-chan struct{}, h *fuse.InHeader) *op {
	m.nameReplies.forgetThread(h.Pid)
	return m.ops.add(m, cancel, h)
}

func (m *Mount) endRequest(o *op) {
	for _, n := range o.touched {
		n.trustedUntil.clear()
	}
	for _, d := range o.dirs {
		if d != nil {
			d.addNameChanges(-1)
		}
	}
	if m.ops.remove(o) {
		m.undoReply(o)
		m.ops.mu.Lock()
		m.ops.lateCount--
		m.ops.mu.Unlock()
	}
}

// recordMayChange records nodes that the server may change. Nodes may be nil.
func (o *op) recordMayChange(nodes ...*node) {
	o.m.ops.mu.Lock()
	defer o.m.ops.mu.Unlock()
	for _, n := range nodes {
		if n != nil {
			o.touched = append(o.touched, n)
		}
	}
}

// markClose records that the request is FLUSH or RELEASE.
func (o *op) markClose() {
	o.m.ops.mu.Lock()
	defer o.m.ops.mu.Unlock()
	o.closes = true
}

// ops holds the requests in flight. A mere signal cancels no request, because
// programs do not expect that from a disk. But a process that is being killed does
// not wait, as with Linux's hard mounts, and no process waits after a forced
// unmount.
type ops struct {
	mu        sync.Mutex
	all       []*op
	unused    []*op // for reuse; none of them was canceled
	lateCount int   // number in flight to which the kernel has already received a reply
}

// add records a new request, and gives it an index and its channels.
func (s *ops) add(m *Mount, cancel <-chan struct{}, h *fuse.InHeader) *op {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o *op
	if last := len(s.unused) - 1; last >= 0 {
		o, s.unused = s.unused[last], s.unused[:last]
	} else {
		o = &op{done: make(chan struct{}), calls: callContext{context.Background(), make(chan struct{})}}
	}
	o.m, o.from, o.unique, o.cancel, o.index = m, h.Caller, h.Unique, cancel, len(s.all)
	s.all = append(s.all, o)
	return o
}

// remove removes a completed request, and reports whether the kernel had already
// received a reply.
func (s *ops) remove(o *op) (answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.all) - 1
	s.all[o.index] = s.all[last]
	s.all[o.index].index = o.index
	s.all[last] = nil
	s.all = s.all[:last]
	if len(s.unused) < maxBackground && o.Err() == nil && o.calls.Err() == nil {
		o.reset()
		s.unused = append(s.unused, o)
	}
	return o.answered
}

// reset clears the fields that add does not set. Copying a whole op would take
// longer than everything else in a request.
func (o *op) reset() {
	clear(o.touched)
	clear(o.referred)
	o.touched, o.referred = o.touched[:0], o.referred[:0]
	o.dirs, o.closes, o.polls, o.openedHandle, o.createdName = [2]*node{}, false, 0, 0, givenName{}
}

// stop cancels a request and its calls.
func (o *op) stop() {
	if o.Err() == nil {
		close(o.done)
	}
	if o.calls.Err() == nil {
		close(o.calls.ended)
	}
}

// stopKilled cancels the requests of killed processes while the server does not
// respond, and all requests if the kernel has aborted the connection.
func (s *ops) stopKilled(aborted func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.all) > 0 && aborted() // a request in flight keeps m.fd open
	for _, o := range s.all {
		if all || o.Err() == nil && o.isInterrupted() && isKilled(o.from.Pid) {
			o.stop()
		}
	}
}

// abandonKilled cancels the requests of killed processes while the server responds
// to others, and those of closes if the kernel has aborted the connection. Local
// waits end at once. A call already sent continues, because abandoning it can cost
// the connection: answer then sends the kernel a reply, and the request continues
// without a process. The request keeps its memory as long as the server may use it.
// abandonKilled returns the nodes that must not be trusted until then.
func (s *ops) abandonKilled(answer func(unique uint64) bool, aborted func() bool) (doubted []*node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.all) > 0 && aborted() // a request in flight keeps m.fd open
	for _, o := range s.all {
		switch {
		case all && o.answered:
			o.stop()
		case o.answered || !o.closes && !o.isInterrupted():
		case o.Err() == nil:
			o.polls++
			if all && o.closes || o.isProcessGone() {
				close(o.done)
			}
		case s.lateCount < maxLate:
			for _, n := range o.touched {
				n.lateChanges.Add(1) // before answer, which wakes the process
			}
			if o.answered = answer(o.unique); !o.answered {
				for _, n := range o.touched {
					n.lateChanges.Add(-1)
				}
				continue
			}
			s.lateCount++
			doubted = append(doubted, o.touched...)
		}
	}
	return doubted
}

// isProcessGone reports whether the process of a request that was interrupted long
// enough ago no longer waits. A process in a namespace that we cannot see may or
// may not have been killed: its request waits longer, and a request that changes
// something waits until it has completed.
func (o *op) isProcessGone() bool {
	if o.from.Pid == 0 {
		return o.polls >= unseenPolls && len(o.touched) == 0 && !o.closes
	}
	return o.polls >= killPolls && isKilled(o.from.Pid)
}

// replyInterrupted tells the kernel that a request was interrupted, instead of the
// request's own reply, which will arrive too late. It reports whether the kernel
// accepted the reply.
func (m *Mount) replyInterrupted(unique uint64) bool {
	const headLen = 16
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, headLen), headLen)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(unix.EINTR)+1) // negative
	b = binary.NativeEndian.AppendUint64(b, unique)
	_, err := unix.Write(m.notifyFD, b)
	return err == nil
}

// undoReply undoes the effects of a reply that the kernel did not accept: it drops
// the references that the reply would have given, and invalidates the attributes of
// the changed nodes.
func (m *Mount) undoReply(o *op) {
	for _, n := range o.touched {
		m.invalidateAttr(n)
		n.lateChanges.Add(-1)
	}
	for _, n := range o.referred {
		m.table.dropReferences(n.id, 1)
	}
	if made := o.createdName; made.dir != nil { // the kernel may believe that the name does not exist
		m.notifications.Go(func() { m.expireName(made.dir, made.name) })
	}
	if o.openedHandle == 0 {
		return
	}
	m.files.removeDir(o.openedHandle)
	if f := m.files.removeFile(o.openedHandle); f != nil {
		m.notifications.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), unmountWait)
			defer cancel()
			m.releaseFile(ctx, f)
		})
	}
}

// undoLastReference drops the reference to the node that the request found last,
// because the request fails after all.
func (o *op) undoLastReference() {
	last := len(o.referred) - 1
	o.m.table.dropReferences(o.referred[last].id, 1)
	o.referred = o.referred[:last]
}

// isInterrupted reports whether the process got a signal since it made the
// request.
func (o *op) isInterrupted() bool {
	select {
	case <-o.cancel:
		return true
	default:
		return false
	}
}

// watchRequests checks the requests in flight until stop is closed.
func (m *Mount) watchRequests(stop <-chan struct{}) {
	t := time.NewTicker(killPoll)
	defer t.Stop()
	rest := time.NewTicker(restPoll)
	defer rest.Stop()
	for {
		select {
		case <-stop:
			return
		case <-rest.C:
			m.releaseIdleNodes()
			m.readBuffers.unmapIdle()
			m.writeBuffers.startMinute()
		case <-t.C:
		}
		if !m.cfg.Up() {
			m.ops.stopKilled(m.isAborted)
			continue
		}
		for _, n := range m.ops.abandonKilled(m.replyInterrupted, m.isAborted) {
			n.expireNode(true)
		}
	}
}
