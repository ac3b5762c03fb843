//go:build interop

package interop

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const recordLimit = 20 * time.Second // for tcpdump to start, or to have all packets

// A Recording is a running tcpdump.
type Recording struct {
	proc *Process
	file string
}

// Record starts recording the packets that match a pcap filter on the loopback device.
func Record(t *testing.T, file, filter string) *Recording {
	t.Helper()
	said := new(sharedBuffer)
	cmd := exec.Command("tcpdump", "-i", "lo", "-s", "0", "-B", "65536", "-U", "-Z", "root", "-w", file, filter)
	cmd.Stderr = said
	p, err := StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "listening on") }, recordLimit, 100*time.Millisecond,
		"tcpdump: %s", said)
	return &Recording{p, file}
}

// End stops the recording once packets have arrived and no more arrive: tcpdump
// gets packets with a delay.
func (r *Recording) End(t *testing.T) {
	t.Helper()
	size := int64(-1)
	require.Eventually(t, func() bool {
		i, err := os.Stat(r.file)
		require.NoError(t, err)
		was := size
		size = i.Size()
		return size == was && size > pcapHeader
	}, recordLimit, time.Second)
	r.proc.Signal(os.Interrupt)
	<-r.proc.Done()
}

// Tshark returns tshark's standard output.
func Tshark(t *testing.T, file string, args ...string) string {
	t.Helper()
	// A client's port may belong to another protocol.
	first := []string{"-n", "-o", "tcp.try_heuristic_first:TRUE", "-r", file}
	cmd := exec.Command("tshark", append(first, args...)...)
	out, err := cmd.Output()
	require.NoError(t, err, "%s", cmd)
	return string(out)
}

// A sharedBuffer is filled by one goroutine and read by another.
type sharedBuffer struct {
	sync.Mutex
	b bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.b.Write(p)
}

func (b *sharedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.b.String()
}
