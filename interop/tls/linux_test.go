//go:build interop

package tls

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

const (
	bootLimit = 5 * time.Minute
	execLimit = 4 * time.Minute

	mark = "what nobody on the way may read" // in data and in names
)

const tlshd = `[debug]
loglevel=1
[authenticate.client]
x509.truststore=/etc/ca.pem
x509.certificate=/etc/client.pem
x509.private_key=/etc/client.key
`

// A machine is a guest with Linux 6.12 and tlshd.
type machine struct {
	*testing.T
	*interop.Guest
}

func newMachine(t *testing.T, authorities string, client certtest.Holder) machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test needs root: the daemon makes files of several owners")
	}
	build := exec.Command("../guest/build")
	build.Stderr = os.Stderr
	build.Env = append(os.Environ(), "INTEROP_KERNEL=6.12")
	dir, err := build.Output()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	g, err := interop.Boot(ctx, interop.Options{Dir: strings.TrimSpace(string(dir))})
	require.NoError(t, err)
	m := machine{t, g}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.try("tail -n 60 /tmp/tlshd.log; dmesg | tail -n 30")
			t.Logf("tlshd and the kernel of the guest say:\n%s", out)
		}
		g.Close()
	})
	conf := certtest.Write(t, t.TempDir(), "tlshd.conf", []byte(tlshd))
	for from, to := range map[string]string{authorities: "ca.pem", client.Cert: "client.pem", client.Key: "client.key", conf: "tlshd.conf"} {
		require.NoError(t, g.Push(t.Context(), from, "/etc/"+to))
	}
	m.must("date -s @%d; chmod 644 /etc/*.pem; chmod 600 /etc/client.key; modprobe tls; tlshd -s >/tmp/tlshd.log 2>&1 &", time.Now().Unix())
	return m
}

// try runs a script in the guest.
func (m machine) try(script string, args ...any) (out string, status int) {
	m.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), execLimit, fmt.Errorf("not done after %v", execLimit))
	defer cancel()
	out, status, err := m.Exec(ctx, fmt.Sprintf(script, args...))
	require.NoError(m, err, "%s\n%s", script, out)
	return out, status
}

// must runs a script in the guest that must succeed.
func (m machine) must(script string, args ...any) string {
	m.Helper()
	out, status := m.try(script, args...)
	require.Zero(m, status, "%s\n%s", fmt.Sprintf(script, args...), out)
	return out
}

// A wire passes connections on to a server, and keeps the bytes of each direction.
type wire struct {
	net.Listener
	to string

	mu   sync.Mutex
	ways [][2][]byte // from the client, from the server
}

func newWire(t *testing.T, to string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{Listener: l, to: to}
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			w.mu.Lock()
			i := len(w.ways)
			w.ways = append(w.ways, [2][]byte{})
			w.mu.Unlock()
			for d, ends := range [2][2]net.Conn{{s, c}, {c, s}} {
				all.Go(func() {
					_, _ = io.Copy(io.MultiWriter(ends[0], &tap{w, i, d}), ends[1])
					c.Close()
					s.Close()
				})
			}
		}
	})
	return w
}

func (w *wire) port() int { return w.Addr().(*net.TCPAddr).Port }

// A tap keeps what passes in one direction.
type tap struct {
	*wire
	i, d int
}

func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ways[t.i][t.d] = append(t.ways[t.i][t.d], p...)
	return len(p), nil
}

// The sizes in bytes of the probe and its answer, with the marks of their records, and
// the place of the probe's flavour.
const (
	probeSize  = 4 + 40
	flavorAt   = 4 + 6*4
	answerSize = 4 + 32
)

// onlyRecords returns an error if anything but TLS records is in b.
func onlyRecords(b []byte) error {
	for at := 0; at < len(b); {
		if len(b)-at < 5 {
			return fmt.Errorf("%d bytes at %d are no TLS record", len(b)-at, at)
		}
		kind, version, n := b[at], binary.BigEndian.Uint16(b[at+1:]), int(binary.BigEndian.Uint16(b[at+3:]))
		if kind < 20 || kind > 23 || version < 0x0301 || version > 0x0303 || n > 1<<14+256 {
			return fmt.Errorf("no TLS record at %d: % x", at, b[at:at+5])
		}
		at += 5 + n
	}
	return nil
}

// check checks that nothing passed in clear but probes, their answers, and the short
// calls of connections that carry no data, and returns how many bytes TLS records had.
func (w *wire) check(t *testing.T) (protected int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, way := range w.ways {
		for _, b := range way {
			assert.False(t, bytes.Contains(b, []byte(mark)))
		}
		if len(way[0]) < probeSize || binary.BigEndian.Uint32(way[0][flavorAt:]) != rpcmsg.AuthTLS { // MOUNT of Linux, and refused mounts
			assert.Less(t, len(way[0])+len(way[1]), 20_000, "in clear")
			continue
		}
		assert.NoError(t, onlyRecords(way[0][probeSize:]), "from the client")
		assert.NoError(t, onlyRecords(way[1][answerSize:]), "from the server")
		protected += len(way[0]) + len(way[1])
	}
	return protected
}

// TestTLSLinux mounts nfsrdmad by Linux's client with xprtsec=tls and mtls, by
// versions 3 and 4.2, and works there. Nothing but TLS records passes behind the
// probe and its answer (R9289-4.1-1). Mounts that the export does not permit, by
// what is weaker, are refused.
func TestTLSLinux(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	server := root.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"server.test.example"} })
	client := root.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"guest"} })
	trusted := certtest.Bundle(root)
	m := newMachine(t, trusted, client)

	base := t.TempDir()
	program := filepath.Join(t.TempDir(), "nfsrdmad")
	out, err := exec.Command("go", "build", "-o", program, "github.com/nfsrdma/nfsrdma/cmd/nfsrdmad").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var list string
	for _, e := range []string{"tls", "mtls"} {
		dir := filepath.Join(base, e)
		require.NoError(t, os.Mkdir(dir, 0o777))
		require.NoError(t, os.Chmod(dir, 0o777))
		transports := "mtls"
		if e == "tls" {
			transports = "tls:mtls"
		}
		list += fmt.Sprintf("%s *(rw,insecure,no_root_squash,xprtsec=%s)\n", dir, transports)
	}
	file := certtest.Write(t, t.TempDir(), "exports", []byte(list))
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	s, err := interop.StartServer(log, program, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--state", t.TempDir(),
		"--tls-cert", server.Cert, "--tls-key", server.Key, "--tls-ca", trusted, "--exports", file)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("nfsrdmad says:\n%s", text)
		}
	})
	w := newWire(t, s.TCP)
	_, rdma, err := net.SplitHostPort(s.RDMA)
	require.NoError(t, err)
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	copy(data, mark)
	require.NoError(t, m.Push(t.Context(), certtest.Write(t, t.TempDir(), "data", data), "/tmp/data"))

	mount := func(export, vers, sec string) (out string, status int) {
		options := fmt.Sprintf("vers=%s,proto=tcp,port=%d,xprtsec=%s", vers, w.port(), sec)
		if vers == "3" {
			options += fmt.Sprintf(",nolock,mountproto=tcp,mountport=%d", w.port())
		}
		return m.try("mount.nfs server.test.example:%s /mnt -o %s 2>&1", filepath.Join(base, export), options)
	}
	for _, vers := range []string{"3", "4.2"} {
		for _, c := range []struct{ export, sec string }{{"tls", "tls"}, {"tls", "mtls"}, {"mtls", "mtls"}} {
			t.Run(vers+"/"+c.sec+" of "+c.export, func(t *testing.T) {
				m := machine{t, m.Guest}
				out, status := mount(c.export, vers, c.sec)
				require.Zero(t, status, out)
				assert.Contains(t, m.must("grep ' /mnt ' /proc/mounts"), "xprtsec="+c.sec)
				m.must("cd /mnt && mkdir d && cp /tmp/data 'd/%s' && mv 'd/%[1]s' 'd/2 %[1]s' && echo 3 >/proc/sys/vm/drop_caches && cmp /tmp/data 'd/2 %[1]s' && ls -l d && ln -s 'd/2 %[1]s' l && cat l >/dev/null", mark)
				m.must("rm -r /mnt/d /mnt/l && umount /mnt")
			})
		}
		for _, c := range []struct{ export, sec string }{{"tls", "none"}, {"mtls", "none"}, {"mtls", "tls"}} {
			t.Run(vers+"/"+c.sec+" of "+c.export, func(t *testing.T) {
				out, status := mount(c.export, vers, c.sec)
				assert.NotZero(t, status)
				assert.Regexp(t, "access denied|Operation not permitted|Permission denied", out)
				t.Logf("%s", out)
			})
		}
	}
	t.Run("RDMA in clear", func(t *testing.T) {
		out, status := machine{t, m.Guest}.try("mount.nfs server.test.example:%s /mnt -o vers=4.2,proto=rdma,port=%s 2>&1", filepath.Join(base, "tls"), rdma)
		assert.NotZero(t, status)
		assert.Contains(t, out, "Operation not permitted")
	})
	t.Run("another name", func(t *testing.T) { // the certificate is not for the address
		m := machine{t, m.Guest}
		out, status := m.try("mount.nfs 10.0.2.2:%s /mnt -o vers=4.2,proto=tcp,port=%d,xprtsec=tls 2>&1", filepath.Join(base, "tls"), w.port())
		assert.NotZero(t, status)
		assert.Contains(t, out, "access denied")
	})
	s.Kill() // all has passed
	assert.Greater(t, w.check(t), 6*2*len(data))
}
