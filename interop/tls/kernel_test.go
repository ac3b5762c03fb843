//go:build interop

package tls

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/interop"
)

// buildStatic builds a program for the guest, which has no libraries for it.
func buildStatic(t *testing.T, args ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", append(args[:len(args)-1:len(args)-1], "-ldflags=-s -w", "-o", path, args[len(args)-1])...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// newKernelMachine boots a guest of the test's own, whose kernel loses and gets the module
// tls, with tlshd. It has two processors, because the programs of this project run in it:
// goroutines that read, write and close a connection of the kernel run at the same time.
func newKernelMachine(t *testing.T, authorities string, client certtest.Holder, forward ...int) interop.Machine {
	t.Helper()
	dir, err := interop.BuildGuest(t.Context(), "../guest/build", "INTEROP_KERNEL=6.12")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	g, err := interop.Boot(ctx, interop.Options{Dir: dir, Forward: forward, Processors: 2})
	require.NoError(t, err)
	m := interop.Machine{T: t, Guest: g}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.Try("tail -n 60 /tmp/tlshd.log; tail -n 40 /tmp/nfsrdmad.log; dmesg | tail -n 30")
			t.Logf("tlshd, nfsrdmad and the kernel of the guest say:\n%s", out)
		}
		g.Close()
	})
	conf := certtest.Write(t, t.TempDir(), "tlshd.conf", []byte(tlshd))
	for from, to := range map[string]string{authorities: "ca.pem", client.Cert: "client.pem", client.Key: "client.key", conf: "tlshd.conf"} {
		require.NoError(t, g.Push(t.Context(), from, "/etc/"+to))
	}
	m.Must("date -s @%d; chmod 644 /etc/*.pem; chmod 600 /etc/client.key; modprobe tls; tlshd -s >/tmp/tlshd.log 2>&1 &", time.Now().Unix())
	return m
}

// Ports of nfsrdmad in the guest.
const (
	portRDMA = 30049
	portTCP  = 30050
)

// kernelStatus returns whether nfsrdmad in the guest says that the kernel has TLS, and how many
// of its connections the kernel encrypts.
func kernelStatus(m interop.Machine) (kernel string, conns int) {
	m.Helper()
	var doc struct {
		TLS         struct{ Kernel string }
		Connections []struct{ Security struct{ Kernel bool } }
	}
	require.NoError(m, json.Unmarshal([]byte(m.Must("/tmp/nfsrdmad status --json --control /tmp/control")), &doc))
	for _, c := range doc.Connections {
		if c.Security.Kernel {
			conns++
		}
	}
	return doc.TLS.Kernel, conns
}

// countKernelStreams returns how many streams the guest's kernel has encrypted and decrypted so far.
func countKernelStreams(m interop.Machine) (sent, received int) {
	m.Helper()
	for _, line := range strings.Split(m.Must("cat /proc/net/tls_stat"), "\n") {
		if w := strings.Fields(line); len(w) == 2 {
			n, err := strconv.Atoi(w[1])
			require.NoError(m, err)
			switch w[0] {
			case "TlsTxSw":
				sent = n
			case "TlsRxSw":
				received = n
			case "TlsDecryptError":
				assert.Zero(m, n, "records that cannot be decrypted")
			}
		}
	}
	return sent, received
}

// TestKernel runs nfsrdmad and mountrdma in the guest with TLS in the kernel, against
// Linux's client and against ends with crypto/tls. Without the module, crypto/tls goes on.
func TestKernel(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	server := root.Issue(func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{"kernel.test.example"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 2, 2)}
	})
	client := root.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"guest"} })
	trusted := certtest.Bundle(root)
	m := newKernelMachine(t, trusted, client, portRDMA, portTCP)
	daemon := buildStatic(t, "build", "github.com/nfsrdma/nfsrdma/cmd/nfsrdmad")
	mountrdma := buildStatic(t, "build", "github.com/nfsrdma/nfsrdma/cmd/mountrdma")
	data := make([]byte, 6<<20)
	_, _ = rand.Read(data)
	file := certtest.Write(t, t.TempDir(), "data", data)
	for from, to := range map[string]string{
		daemon: "/tmp/nfsrdmad", mountrdma: "/tmp/mountrdma", server.Cert: "/etc/server.pem", server.Key: "/etc/server.key", file: "/tmp/data",
	} {
		require.NoError(t, m.Push(t.Context(), from, to))
	}
	sum := m.Must("md5sum </tmp/data")
	m.Must(`chmod 755 /tmp/nfsrdmad /tmp/mountrdma; chmod 600 /etc/server.key; echo 127.0.0.1 kernel.test.example >>/etc/hosts
rmmod tls && echo /bin/false >/proc/sys/kernel/modprobe
mkdir -m 777 /tmp/shop
/tmp/nfsrdmad serve /tmp/shop --listen 0.0.0.0:%d --tcp 0.0.0.0:%d --state /tmp/state --control /tmp/control --log-level debug \
	--tls-cert /etc/server.pem --tls-key /etc/server.key --tls-ca /etc/ca.pem --rdma-tls allow --tls-kernel auto >/tmp/nfsrdmad.log 2>&1 &
for i in $(seq 100); do grep -q ready /tmp/nfsrdmad.log && break; sleep 0.2; done; grep ready /tmp/nfsrdmad.log`, portRDMA, portTCP)
	_, port, err := net.SplitHostPort(m.Addr(portRDMA))
	require.NoError(t, err)
	// outside runs mountrdma, which is on the host and has crypto/tls.
	outside := func(args ...string) string {
		out, err := exec.Command(mountrdma, append(args, "--xprtsec", "tls", "--tls-ca", trusted)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	shop := "nfs://127.0.0.1:" + port + "/tmp/shop"

	t.Run("without the module", func(t *testing.T) {
		m := interop.Machine{T: t, Guest: m.Guest}
		outside("cp", certtest.Write(t, t.TempDir(), "small", data[:1<<20]), shop+"/small")
		assert.Equal(t, m.Must("head -c 1048576 /tmp/data | md5sum"), m.Must("md5sum </tmp/shop/small"))
		kernel, _ := kernelStatus(m)
		assert.Equal(t, "not available", kernel)
		assert.Equal(t, "1\n", m.Must("grep -c 'kernel TLS: not available' /tmp/nfsrdmad.log"))
	})
	m.Must("echo /sbin/modprobe >/proc/sys/kernel/modprobe; modprobe tls")

	t.Run("mountrdma with crypto/tls", func(t *testing.T) {
		m := interop.Machine{T: t, Guest: m.Guest}
		sent, received := countKernelStreams(m)
		outside("cp", file, shop+"/there")
		back := filepath.Join(t.TempDir(), "back")
		outside("cp", shop+"/there", back)
		assert.Equal(t, sum, m.Must("md5sum </tmp/shop/there"))
		got, err := os.ReadFile(back)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, got))
		moreSent, moreReceived := countKernelStreams(m)
		assert.Greater(t, moreSent, sent)
		assert.Equal(t, moreSent-sent, moreReceived-received)
		kernel, _ := kernelStatus(m)
		assert.Equal(t, "on", kernel)
	})
	t.Run("Linux", func(t *testing.T) {
		for _, vers := range []string{"3", "4.2"} {
			m := interop.Machine{T: t, Guest: m.Guest}
			sent, received := countKernelStreams(m)
			options := fmt.Sprintf("vers=%s,proto=tcp,port=%d,xprtsec=mtls", vers, portTCP)
			if vers == "3" {
				options += fmt.Sprintf(",nolock,mountproto=tcp,mountport=%d", portTCP)
			}
			m.Must("mount.nfs kernel.test.example:/tmp/shop /mnt -o %s 2>&1", options)
			m.Must("cp /tmp/data /mnt/%s && echo 3 >/proc/sys/vm/drop_caches", vers)
			_, conns := kernelStatus(m)
			assert.Positive(t, conns)
			assert.Equal(t, sum, m.Must("md5sum </mnt/%s", vers))
			assert.Equal(t, sum, m.Must("md5sum </tmp/shop/%s", vers))
			m.Must("umount /mnt")
			moreSent, moreReceived := countKernelStreams(m)
			assert.GreaterOrEqual(t, moreSent-sent, 2, "of the client, and of nfsrdmad")
			assert.GreaterOrEqual(t, moreReceived-received, 2)
		}
	})
	t.Run("mountrdma in the kernel", func(t *testing.T) {
		m := interop.Machine{T: t, Guest: m.Guest}
		const flags = "--xprtsec mtls --tls-ca /etc/ca.pem --tls-cert /etc/client.pem --tls-key /etc/client.key --tls-kernel auto"
		assert.Contains(t, m.Must("/tmp/mountrdma info 127.0.0.1:%d %s", portRDMA, flags), "by the kernel")
		m.Must("/tmp/mountrdma cp /tmp/data nfs://127.0.0.1:%d/tmp/shop/both %s && /tmp/mountrdma cp nfs://127.0.0.1:%[1]d/tmp/shop/both /tmp/back %[2]s", portRDMA, flags)
		assert.Equal(t, sum, m.Must("md5sum </tmp/shop/both"))
		assert.Equal(t, sum, m.Must("md5sum </tmp/back"))
	})
}

// TestKernelUnits runs the tests of package rpctls that need TLS in the kernel.
func TestKernelUnits(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	m := newKernelMachine(t, certtest.Bundle(root), root.Issue(nil))
	require.NoError(t, m.Push(t.Context(), buildStatic(t, "test", "-c", "github.com/nfsrdma/nfsrdma/oncrpc/rpctls"), "/tmp/rpctls.test"))
	out := m.Must("cd /tmp && chmod 755 rpctls.test && ./rpctls.test -test.v -test.timeout 220s -test.run '%s' 2>&1 || echo failed", "Kernel|Buffers|Interrupted|Deadline|Close|ForgedEnd|Reset|Vanishes")
	t.Logf("%s", out)
	assert.False(t, strings.Contains(out, "failed"))
	assert.LessOrEqual(t, strings.Count(out, "SKIP"), 1, "the guest has all suites but that of ChaCha20")
}
