//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/locking"
)

// noticeLimit bounds the time from the release of a lock until a process that waits for
// it has it: without a notice, Linux asks again after up to 30 s. The host's locks are
// looked at every second.
const noticeLimit = 3 * time.Second

// A lockWait is a wait for a lock, and the way in which the lock becomes free.
type lockWait struct {
	from, release  string // the holder's mount, or the host if empty
	holder, waiter locking.Child
	answers        lockAnswers
}

func (n *lockWait) String() string {
	return fmt.Sprintf("from %q by %s", n.from, strings.Fields(n.release)[0])
}

// TestNotices4 has processes of one Linux client wait for locks that another client
// has, or a process of the server's host, for so long that Linux asks seldom. Each gets
// its lock as soon as the other one unlocks, closes the file or dies. All wait at the
// same time, for locks of different files.
func TestNotices4(t *testing.T) {
	sharedGuest(t)
	d := startDaemon(t, "--no-root-squash")
	s := d.guestSite().withVersion("4.2")
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	s.mountInGuest(t, "/mnt2", s.mountOptions("tcp"))
	var notices []*lockWait
	for _, from := range []string{"/mnt2", "/mnt", ""} {
		waiterAt := map[string]string{"/mnt": "/mnt2", "/mnt2": "/mnt", "": "/mnt"}[from]
		for _, release := range []string{"posix 1 none 0 0", "close 1", "die"} {
			dir := fmt.Sprintf("/%d", len(notices))
			onHost(t, d.dir, "mkdir ."+dir)
			n := &lockWait{from: from, release: release}
			var err error
			if from == "" {
				n.holder, err = hostLocker(d.dir + dir)
			} else {
				n.holder, err = newGuestLocker(t, from+dir)
			}
			require.NoError(t, err)
			n.waiter, err = newGuestLocker(t, waiterAt+dir)
			require.NoError(t, err)
			n.answers = lockAnswers{n.holder: bufio.NewReader(n.holder), n.waiter: bufio.NewReader(n.waiter)}
			n.answers.runSteps(t, []lockStep{
				{n.holder, "open 1", "ok"}, {n.waiter, "open 1", "ok"}, {n.holder, "posix 1 write 0 10", "ok"},
			})
			notices = append(notices, n)
		}
	}
	for _, n := range notices {
		fmt.Fprintln(n.waiter, "posix-wait 1 write 5 10")
	}
	time.Sleep(10 * time.Second) // Linux without notices has asked after 1, 3 and 7 s, and asks after 15 s
	var released sync.WaitGroup
	for _, n := range notices {
		released.Go(func() { n.checkWakeup(t) })
	}
	released.Wait()
	for _, n := range notices {
		assert.NoError(t, n.waiter.Wait(), n)
		if n.release != "die" {
			assert.NoError(t, n.holder.Wait(), n)
		}
	}
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}

// checkWakeup frees the lock, which the waiter must then get.
func (n *lockWait) checkWakeup(t *testing.T) {
	start := time.Now()
	if n.release == "die" {
		assert.NoError(t, n.holder.Wait(), n) // its input ends, and so it does
	} else {
		fmt.Fprintln(n.holder, n.release)
		answer, err := n.answers[n.holder].ReadString('\n')
		assert.NoError(t, err, n)
		assert.Equal(t, "ok\n", answer, n)
	}
	answer, err := n.answers[n.waiter].ReadString('\n')
	took := time.Since(start)
	assert.NoError(t, err, n)
	assert.Equal(t, "ok\n", answer, n)
	t.Logf("%v: %.2f s", n, took.Seconds())
	assert.Less(t, took, noticeLimit, n)
}
