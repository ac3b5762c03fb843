//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWriteDelegations4 writes files over NFSv4.2 under delegations for writing. Linux
// keeps what a program has written while the file is open, begins to write back when it
// is closed, and does not wait for the end of that. Others see what was written before
// the close, and nothing is lost, also when the daemon is killed in between. In an export
// that is not exclusive the delegations have leases of the host.
//
// R8881-10.4.3-1, R8881-10.2.1-2.
func TestWriteDelegations4(t *testing.T) {
	sharedGuest(t)
	before := mustInGuest(t, "cat /proc/sys/vm/dirty_writeback_centisecs")
	mustInGuest(t, "echo 0 >/proc/sys/vm/dirty_writeback_centisecs") // Linux writes nothing back by itself
	t.Cleanup(func() { tryInGuest(t, "echo "+strings.TrimSpace(before)+" >/proc/sys/vm/dirty_writeback_centisecs") })
	for name, flags := range map[string][]string{"exclusive": {"--exclusive"}, "shared": nil} {
		t.Run(name, func(t *testing.T) { testWriteDelegations4(t, flags...) })
	}
}

func testWriteDelegations4(t *testing.T, flags ...string) {
	control := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, append(flags, "--no-root-squash", "--delegations", "all", "--control", control)...)
	s := d.guestSite()
	s.withVersion("4.2").mountInGuest(t, "/mnt", s.withVersion("4.2").mountOptions("rdma"))
	s.withVersion("4.2").mountInGuest(t, "/mnt2", s.withVersion("4.2").mountOptions("tcp", "actimeo=0"))
	s.mountInGuest(t, "/mnt3", s.mountOptions("tcp", "actimeo=0"))

	// cached makes a file whose content is in the cache of /mnt alone, while a program
	// has the file open.
	var writers []string
	others := 0 // files that are not only in the cache, in all
	cached := func(t *testing.T, name string) (content string) {
		t.Helper()
		content = "content of " + name + "\n"
		for {
			before := statusOf(t, control).NFS4.Granted
			pid := strings.TrimSpace(mustInGuest(t, fmt.Sprintf(
				`setsid sh -c "echo content of %[1]s; exec sleep 3600" >/mnt/%[1]s 2>/dev/null </dev/null & echo $!`, name)))
			mustInGuest(t, fmt.Sprintf(`until [ "$(cat /proc/%s/comm)" = sleep ]; do sleep 0.1; done`, pid)) // stat(2) would write back
			granted := statusOf(t, control).NFS4.Granted - before
			info, err := os.Stat(filepath.Join(d.dir, name))
			require.NoError(t, err)
			// The server may refuse a delegation, and the client may write back early.
			if (granted != 1 || info.Size() > 0) && others < 3 {
				others++
				t.Logf("%s: %d delegations granted, %d bytes written back", name, granted, info.Size())
				mustInGuest(t, "kill "+pid+"; rm /mnt/"+name)
				continue
			}
			writers = append(writers, pid)
			require.EqualValues(t, 1, granted, "a delegation of %s", name)
			require.Zero(t, info.Size(), "%s was written back", name)
			break
		}
		return content
	}
	eventually(t, func() bool { // the backchannel is up
		mustInGuest(t, "echo x >/mnt/first")
		return statusOf(t, control).NFS4.Writes > 0
	}, daemonLimit, pollEvery)

	// closed makes a file that has been closed.
	closed := func(t *testing.T, name string) (content string) {
		t.Helper()
		before := statusOf(t, control).NFS4.Granted
		mustInGuest(t, fmt.Sprintf("echo content of %[1]s >/mnt/%[1]s", name))
		require.Equal(t, before+1, statusOf(t, control).NFS4.Granted, "a delegation of %s", name)
		return "content of " + name + "\n"
	}
	sees := func(t *testing.T, content, path string) {
		t.Helper()
		assert.Equal(t, content, mustInGuest(t, "cat "+path), path)
	}

	asked := 0 // files that stat(2) has left in the cache
	uses := map[string]func(t *testing.T, name, content string){
		"stat": func(t *testing.T, name, content string) {
			for _, point := range []string{"/mnt2", "/mnt3"} {
				assert.Equal(t, strconv.Itoa(len(content))+"\n", mustInGuest(t, "stat -c %s "+point+"/"+name))
			}
			assert.Contains(t, mustInGuest(t, "ls -l /mnt2 /mnt3"), strconv.Itoa(len(content)))
			info, err := os.Stat(filepath.Join(d.dir, name))
			require.NoError(t, err)
			if info.Size() == 0 { // the guest may be too slow to answer in time
				asked++
			}
		},
		"chmod": func(t *testing.T, name, content string) {
			mustInGuest(t, "chmod 600 /mnt2/"+name)
			assert.Equal(t, content, mustInGuest(t, "cat /mnt/"+name))
		},
		"fsync": func(t *testing.T, name, content string) {
			mustInGuest(t, "sync /mnt/"+name)
			got, err := os.ReadFile(filepath.Join(d.dir, name))
			require.NoError(t, err)
			assert.Equal(t, content, string(got))
		},
	}
	n := 0
	for what, use := range uses {
		t.Run(what, func(t *testing.T) {
			for range 3 {
				n++
				name := fmt.Sprint("f", n)
				use(t, name, cached(t, name))
			}
		})
	}
	assert.NotZero(t, asked)
	for what, use := range map[string]func(t *testing.T, name, content string){
		"read by version 4": func(t *testing.T, name, content string) {
			sees(t, content, "/mnt2/"+name)
		},
		"read by version 3": func(t *testing.T, name, content string) {
			sees(t, content, "/mnt3/"+name)
		},
		"append by version 4": func(t *testing.T, name, content string) {
			mustInGuest(t, "echo more >>/mnt2/"+name)
			sees(t, content+"more\n", "/mnt/"+name)
		},
		"append by version 3": func(t *testing.T, name, content string) {
			mustInGuest(t, "echo more >>/mnt3/"+name)
			sees(t, content+"more\n", "/mnt/"+name)
		},
		"rename": func(t *testing.T, name, content string) {
			mustInGuest(t, fmt.Sprintf("mv /mnt2/%[1]s /mnt2/%[1]s.new", name))
			sees(t, content, "/mnt3/"+name+".new")
		},
	} {
		t.Run(what, func(t *testing.T) {
			for range 3 {
				n++
				name := fmt.Sprint("f", n)
				content := closed(t, name)
				before := statusOf(t, control).NFS4.Recalled
				use(t, name, content)
				assert.Greater(t, statusOf(t, control).NFS4.Recalled, before)
			}
		})
	}
	assert.Zero(t, statusOf(t, control).NFS4.Revoked)

	t.Run("the daemon is killed", func(t *testing.T) {
		contents := make(map[string]string)
		for i := range 20 {
			name := fmt.Sprint("k", i)
			contents[name] = cached(t, name)
		}
		d.proc.Kill()
		<-d.proc.Done()
		d.startProcess()
		start := time.Now()
		mustInGuest(t, "sync") // the programs have their files open, so nothing else writes back
		t.Logf("all is written %.1f s after the restart", time.Since(start).Seconds())
		for name, content := range contents {
			got, err := os.ReadFile(filepath.Join(d.dir, name))
			require.NoError(t, err)
			assert.Equal(t, content, string(got))
			assert.Equal(t, content+content, mustInGuest(t, fmt.Sprintf("cat /mnt2/%[1]s /mnt3/%[1]s", name)))
		}
	})
	mustInGuest(t, "kill "+strings.Join(writers, " "))
	for _, point := range []string{"/mnt", "/mnt2", "/mnt3"} {
		unmountInGuest(t, point)
	}
	d.stopGracefully()
}
