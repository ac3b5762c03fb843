//go:build interop

package interop

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bridgeReady is the line that "mountrdma bridge" prints once it accepts
// connections.
var bridgeReady = regexp.MustCompile(`^ready tcp=(\S+)`)

// startBridge runs program's bridge until the test ends, and returns its
// address. The bridge must end without an error.
func startBridge(t *testing.T, program string, args ...string) (addr string) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	said := new(sharedBuffer)
	cmd := exec.Command(program, append([]string{"bridge"}, args...)...)
	cmd.Stdout, cmd.Stderr = w, said
	p, err := StartProcess(cmd)
	w.Close()
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Signal(syscall.SIGTERM)
		select {
		case <-p.Done():
			assert.Zero(t, p.ExitCode(), "exit status after SIGTERM")
		case <-time.After(daemonLimit):
			t.Errorf("the bridge still runs %v after SIGTERM", daemonLimit)
			p.Kill()
		}
		if t.Failed() {
			t.Logf("the bridge says:\n%s", outputTail(said.String()))
		}
	})
	require.NoError(t, r.SetReadDeadline(time.Now().Add(serverLimit)))
	line, err := bufio.NewReader(r).ReadString('\n')
	m := bridgeReady.FindStringSubmatch(line)
	require.NotNil(t, m, "%q, %v: %s", line, err, said)
	return m[1]
}

// TestBridge makes Linux's client mount servers over TCP through a bridge:
// nfsrdmad, which is stopped, and killed, while files are open and in use, and
// Linux's own server, which has MOUNT only on TCP.
func TestBridge(t *testing.T) {
	sharedGuest(t)
	t.Run("nfsrdmad", func(t *testing.T) {
		d := startDaemon(t, "--no-root-squash")
		s := d.guestSite().behindBridge(t, d.rdma)
		s.runWorkload(t)
		s.mountInGuest(t, "/mnt", s.mountOptions("tcp"))
		u := startHold(t, "/mnt/held")
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			d.proc.Signal(sig)
			<-d.proc.Done()
			d.startProcess()
			checkAll([]*holdProcess{u})
		}
		u.endHold()
		unmountInGuest(t, "/mnt")
	})
	t.Run("knfsd", func(t *testing.T) {
		k := knfsdShop(t)
		k.behindBridge(t, k.serverArgument()).runWorkload(t)
	})
}

// behindBridge returns the site behind a bridge to its server.
func (s guestSite) behindBridge(t *testing.T, server string) guestSite {
	addr := startBridge(t, programPath("mountrdma"), "--listen", "127.0.0.1:0", "--insecure", server) // the guest is behind NAT
	s.host, s.rdma = "10.0.2.2", 0
	s.tcp, s.mountd = portOf(t, addr), portOf(t, addr)
	return s.withVersion("")
}

// runWorkload does a part of the workload on a mount over TCP, and compares the
// guest's view on the next mount with the served directory.
func (s guestSite) runWorkload(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { s.runShell(t, "rm -rf work") })
	s.mountInGuest(t, "/mnt", s.mountOptions("tcp"))
	out, status := tryInGuest(t, "mkdir /mnt/work && guestwork run /mnt/work rename links && cp /bin/guestwork /mnt/work/")
	t.Logf("%s", outputTail(out))
	assert.Zero(t, status)
	unmountInGuest(t, "/mnt")
	s.mountInGuest(t, "/mnt", s.mountOptions("tcp"))
	sameLines(t, s.readManifest(t, "work"), mustInGuest(t, "cmp /bin/guestwork /mnt/work/guestwork && guestwork manifest /mnt/work"))
	unmountInGuest(t, "/mnt")
}
