//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"strings"
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

// TestNotices4 has a process of one Linux client wait for a lock that another client
// has, or a process of the server's host, for so long that Linux asks seldom. It gets
// the lock as soon as the other one unlocks, closes the file or dies.
func TestNotices4(t *testing.T) {
	guest(t)
	d := serve(t, "--no-root-squash")
	s := d.site().by("4.2")
	s.mount(t, "/mnt", s.options("rdma"))
	s.mount(t, "/mnt2", s.options("tcp"))
	for _, from := range []string{"/mnt2", "/mnt", ""} {
		waiterAt := map[string]string{"/mnt": "/mnt2", "/mnt2": "/mnt", "": "/mnt"}[from]
		for _, release := range []string{"posix 1 none 0 0", "close 1", "die"} {
			t.Run(fmt.Sprintf("from %q by %s", from, strings.Fields(release)[0]), func(t *testing.T) {
				var holder locking.Child
				var err error
				if from == "" {
					holder, err = hostLocker(d.dir)
				} else {
					holder, err = newGuestLocker(t, from)
				}
				require.NoError(t, err)
				waiter, err := newGuestLocker(t, waiterAt)
				require.NoError(t, err)
				answers := lockAnswers{holder: bufio.NewReader(holder), waiter: bufio.NewReader(waiter)}
				answers.steps(t, []lockStep{
					{holder, "open 1", "ok"}, {waiter, "open 1", "ok"}, {holder, "posix 1 write 0 10", "ok"},
				})
				fmt.Fprintln(waiter, "posix-wait 1 write 5 10")
				time.Sleep(10 * time.Second) // Linux without notices has asked after 1, 3 and 7 s, and asks after 15 s
				start := time.Now()
				if release == "die" {
					assert.NoError(t, holder.Wait()) // its input ends, and so it does
				} else {
					answers.steps(t, []lockStep{{holder, release, "ok"}})
				}
				answer, err := answers[waiter].ReadString('\n')
				took := time.Since(start)
				require.NoError(t, err)
				assert.Equal(t, "ok\n", answer)
				t.Logf("%.2f s", took.Seconds())
				assert.Less(t, took, noticeLimit)
				assert.NoError(t, waiter.Wait())
				if release != "die" {
					assert.NoError(t, holder.Wait())
				}
			})
		}
	}
	umount(t, "/mnt2")
	umount(t, "/mnt")
	d.stop()
}
