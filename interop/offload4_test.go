//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOffload4 checks copies that go on after the answer to COPY: of data and of a
// file that is a hole, by RDMA and TCP; one whose program is killed, which Linux
// cancels; and one during which nfsrdmad is killed, which Linux makes again. Calls of
// another program let Linux find the restart before it renews its lease.
func TestOffload4(t *testing.T) {
	sharedGuest(t)
	disk := newDisk(t)
	dir := filepath.Join(disk.dir, "served")
	require.NoError(t, os.Mkdir(dir, 0o755))
	onHost(t, dir, "head -c 200M /dev/urandom >data; truncate -s 64M hole")
	d := serveDir(t, dir, "--no-root-squash")
	s := d.guestSite().withVersion("4.2")
	for _, transport := range []string{"rdma", "tcp"} {
		s.mountInGuest(t, "/mnt", s.mountOptions(transport))
		reads, writes := countCalls4(t, "READ"), countCalls4(t, "WRITE")
		logTime(t, "data by "+transport, func() { mustInGuest(t, "guestwork copy /mnt/data /mnt/copy") })
		t.Logf("%d calls of COPY", countCalls4(t, "COPY"))
		assert.Less(t, countCalls4(t, "COPY"), 5)
		logTime(t, "hole by "+transport, func() { mustInGuest(t, "guestwork copy /mnt/hole /mnt/copied") })
		assert.Equal(t, [2]int{reads, writes}, [2]int{countCalls4(t, "READ"), countCalls4(t, "WRITE")}, "no data is moved")
		onHost(t, dir, "cmp data copy && cmp hole copied && rm copy copied")
		unmountInGuest(t, "/mnt")
	}

	s.mountInGuest(t, "/mnt", s.mountOptions("tcp"))
	for try := 0; countCalls4(t, "OFFLOAD_CANCEL") == 0; try++ {
		require.Less(t, try, 30, "no program was killed during its copy")
		mustInGuest(t, fmt.Sprintf("rm -f /mnt/copy; guestwork copy /mnt/data /mnt/copy & sleep 0.%02d; kill -9 $!; wait; :", 5+3*try))
	}
	var size [2]string
	for i := range size {
		size[i] = onHost(t, dir, "sync; stat -c '%s %b' copy")
		time.Sleep(300 * time.Millisecond)
	}
	assert.Equal(t, size[0], size[1], "a copy that was cancelled writes no more")
	mustInGuest(t, "rm /mnt/copy; guestwork copy /mnt/data /mnt/copy && cmp /mnt/data /mnt/copy && rm /mnt/copy")

	for _, pause := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond} {
		mustInGuest(t, "(guestwork copy /mnt/data /mnt/copy; echo $? >/tmp/copied) >/dev/null 2>&1 &")
		time.Sleep(pause)
		d.proc.Kill()
		d.startProcess()
		logTime(t, "copy with a restart", func() {
			mustInGuest(t, "n=0; until [ -e /tmp/copied ]; do df /mnt >/dev/null; sleep 0.2; n=$((n+1)); [ $n -lt 600 ] || exit 1; done; cat /tmp/copied; [ $(cat /tmp/copied) = 0 ]; rm /tmp/copied")
		})
		onHost(t, dir, "cmp data copy && rm copy")
	}
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}
