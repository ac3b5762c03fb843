package iwarp

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestLending checks that the reader is only in calls that the runtime knows while the kernel reads
// from mappings.
func TestLending(t *testing.T) {
	var s mappingGuard
	var inside, over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !over.Load() {
			if s.enterRawCall() {
				inside.Store(true)
				for range 100 { // as a system call takes some time
					over.Load()
				}
				inside.Store(false)
				s.leaveRawCall()
			}
			runtime.Gosched() // on one processor, too, the other must get on
		}
	})
	for range 10_000 {
		s.beginSend()
		if !assert.False(t, inside.Load()) {
			break
		}
		runtime.Gosched()
		if !assert.False(t, inside.Load()) {
			break
		}
		s.endSend()
	}
	s.endSend()
	over.Store(true)
	wg.Wait()
}

// TestHungDisk checks that a connection whose data wait for a disk, with the socket locked by the
// kernel, delays no other connection, and that its peer does not count as one that stalls.
func TestHungDisk(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, transports["tcp"])
	sendFirst(t, a, b)
	x, y := connectPair(t, transports["tcp"])
	disk, waits := make(chan struct{}), make(chan struct{})
	l := a.sock.tcp
	l.wr.call = func(flags int) (int, unix.Errno) {
		if l.wr.mayFault {
			close(waits)
			<-disk
		}
		return l.wr.callSystem(flags)
	}
	a.tx.watch.limit = 50 * time.Millisecond
	file, _ := mapFile(t, 100)
	done := make(completionWaiter, 1)
	go a.Post(withReread(rdma.WR{Op: rdma.OpSend, Data: [][]byte{file}, Done: done}))
	<-waits
	assert.False(t, l.rd.mappings.enterRawCall(), "the runtime learns of the reader's calls")

	// Whatever asks the kernel about the socket waits now.
	held := make(chan struct{})
	go l.withFD(func(int) {
		close(held)
		<-disk
	})
	<-held
	ask := func() bool {
		_, ok := a.sock.meter.Ask(func() keepalive.State { <-disk; return keepalive.State{} })
		return ok
	}
	require.False(t, ask())

	cause := errors.New("cut")
	over := make(chan struct{})
	go func() {
		defer close(over)
		assert.True(t, a.AwaitsSource())
		assert.False(t, x.AwaitsSource())
		a.Traffic()
		testDevice.Stats()
		if l.handleEvents(l.rd.event) { // as a worker does
			linkPoller.queueLink(l)
		}
		time.Sleep(2 * lentChecks * a.tx.watch.limit)
		assert.NotErrorIs(t, a.closedError(), errLentStalls)
		a.Abort(cause)
		sendFirst(t, x, y)
	}()
	select {
	case <-over:
	case <-time.After(testTimeout):
		assert.Fail(t, "another goroutine waits for the disk")
	}
	close(disk)
	<-over
	assert.ErrorIs(t, a.inbox.closeError(t), cause)
	done.wait(t)
	assert.False(t, a.AwaitsSource())
}
