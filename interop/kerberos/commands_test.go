//go:build interop

package kerberos

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commandUser is the user of this host whose commands use several caches.
const commandUser = 41001

// getCache gets a ticket into a cache of its own, which belongs to commandUser and which only
// KRB5CCNAME names.
func (h *clientHost) getCache(name, cache string, options ...string) string {
	h.Helper()
	path := filepath.Join(h.dir, cache)
	require.NoError(h, h.kdc.runCommand("secret\n", "kinit", append(options, "-c", path, name)...))
	require.NoError(h, os.Chown(path, commandUser, 100))
	return "FILE:" + path
}

// runMountrdma runs a command of mountrdma with a credential cache.
func (h *clientHost) runMountrdma(cache string, words ...string) (stdout, stderr string, status int) {
	h.Helper()
	cmd := commandAs(commandUser, append([]string{filepath.Dir(h.helper) + "/mountrdma"}, words...)...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+h.dir+"/krb5.conf", "KRB5CCNAME="+cache)
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	if err := cmd.Run(); err != nil {
		require.ErrorAs(h, err, new(*exec.ExitError))
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			status = e.ExitCode()
		}
	}
	return out.String(), says.String(), status
}

// TestKerberosCommands runs commands of one user with the tickets of two principals, as KRB5CCNAME
// names their caches: the server's rights are those of the principal. Without a ticket, and with an
// expired one, a command fails with status 1, and says what helps.
func TestKerberosCommands(t *testing.T) {
	h := newMountHost(t)
	d := newDaemon(t, h.testRealm, "krb5p")
	expired := h.getCache("alice", "expired", "-l", "1s")
	alice, bob := h.getCache("alice", "of-alice"), h.getCache("bob", "of-bob")
	local := filepath.Join(h.dir, "local")
	require.NoError(t, os.WriteFile(local, []byte("of alice\n"), 0o644))
	url := func(path string) string { return "nfs://localhost:" + portOf(t, d.RDMA) + "/x" + path }
	works := func(cache string, words ...string) string {
		t.Helper()
		out, says, status := h.runMountrdma(cache, words...)
		require.Zero(t, status, "%q: %s", words, says)
		return out
	}
	fails := func(cache, says string, words ...string) {
		t.Helper()
		out, stderr, status := h.runMountrdma(cache, words...)
		assert.Equal(t, 1, status, "%q: %s", words, stderr)
		assert.Empty(t, out, "%q", words)
		assert.Regexp(t, says, stderr, "%q", words)
	}

	works(alice, "cp", "--sec", "krb5p", local, url("/file"))
	assert.EqualValues(t, 1, ownerOf(t, filepath.Join(d.dir, "file")), "alice's, not the user's of this host")
	require.NoError(t, os.Chmod(filepath.Join(d.dir, "file"), 0o600))
	for cache, mayRead := range map[string]bool{alice: true, bob: false} {
		assert.Contains(t, works(cache, "ls", "--sec", "krb5p", url("")), "file")
		assert.Contains(t, works(cache, "stat", "--json", "--sec", "krb5p", url("/file")), `"uid":1`)
		if mayRead {
			assert.Equal(t, "of alice\n", works(cache, "cat", "--sec", "krb5p", url("/file")))
			continue
		}
		fails(cache, "NFS3ERR_ACCES", "cat", "--sec", "krb5p", url("/file"))
		fails(cache, "NFS3ERR_ACCES|NFS3ERR_PERM", "cp", "--sec", "krb5p", local, url("/file"))
	}
	works(bob, "cp", "--sec", "krb5p", local, url("/of-bob"))
	assert.EqualValues(t, 2, ownerOf(t, filepath.Join(d.dir, "of-bob")))
	assert.Equal(t, "of alice\n", works(alice, "cat", url("/file")), "without --sec, the export's flavor")

	none := "FILE:" + h.dir + "/none"
	for _, command := range []string{"ls", "stat", "cat"} {
		fails(none, `no ticket \(`+none+`\): run kinit\n$`, command, "--sec", "krb5p", url("/file"))
	}
	fails(none, `no ticket \(`+none+`\): run kinit\n$`, "cp", "--sec", "krb5p", local, url("/new"))
	for until := time.Now().Add(mountLimit); ; { // the server permits clocks that differ
		if _, _, status := h.runMountrdma(expired, "ls", "--sec", "krb5p", url("")); status != 0 {
			break
		}
		require.True(t, time.Now().Before(until))
	}
	for _, command := range []string{"ls", "stat", "cat"} {
		fails(expired, `your ticket expired \d+ seconds? ago \(`+expired+`\): run kinit\n$`, command, "--sec", "krb5p", url("/file"))
	}
	fails(expired, `your ticket expired \d+ seconds? ago \(`+expired+`\): run kinit\n$`, "cp", "--sec", "krb5p", local, url("/new"))
	assert.NoFileExists(t, filepath.Join(d.dir, "new"))
	assert.Zero(t, d.contextStatus(t).Contexts, "the commands have ended theirs")
	assert.Zero(t, d.contextStatus(t).Calls["krb5"]+d.contextStatus(t).Calls["krb5i"])
}

// TestKerberosOnlyNFS4 mounts a daemon of NFSv4.2 alone by Linux's client with Kerberos, over TCP and
// over RDMA: the machine and its users find all they need at the one port of each transport.
func TestKerberosOnlyNFS4(t *testing.T) {
	m, r := newMachine(t)
	m.Must("dd if=/dev/urandom of=/tmp/data bs=%d count=%d 2>/dev/null; chmod 644 /tmp/data", payload, count)
	d := newDaemon(t, r, "krb5p:krb5", "--vers", "4.2", "--tcp", gssAddr)
	for transport, port := range map[string]string{"tcp": "2049", "rdma": portOf(t, d.RDMA)} {
		for _, sec := range []string{"krb5", "krb5p"} {
			t.Run(transport+"-"+sec, func(t *testing.T) {
				m := m.withTest(t)
				m.runWorkload(d, "4.2-only-"+transport+"-"+sec, "vers=4.2,proto="+transport+",sec="+sec+",port="+port)
				m.Must("umount /mnt")
			})
		}
	}
	t.Run("3", func(t *testing.T) {
		m := m.withTest(t)
		_, status := m.Try("mount.nfs server.test.example:/x /mnt -o vers=3,nolock,proto=tcp,sec=krb5,port=2049,mountproto=tcp,mountport=2049,retry=0 2>&1")
		assert.NotZero(t, status)
	})
}
