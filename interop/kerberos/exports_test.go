//go:build interop

package kerberos

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exportsFile has directories of DIR with lists of flavors of all kinds. Alice is user 1
// of the server, by her ticket.
const exportsFile = `DIR/sys     *(rw,insecure)
DIR/krb5    *(rw,insecure,sec=krb5)
DIR/krb5i   *(rw,insecure,sec=krb5i)
DIR/krb5p   *(rw,insecure,sec=krb5p)
DIR/none    *(rw,insecure,sec=none)
DIR/list    *(insecure,sec=krb5p:krb5i,rw,sec=sys,ro)
DIR/squash  *(rw,insecure,sec=krb5,all_squash,anonuid=2,sec=sys)
DIR/hangup  *(rw,insecure,sec=krb5:sys)
`

// The errors with which Linux's mount(2) and calls of a mount report a flavor that an
// export does not take.
var refusals = map[string]string{"3": "Permission denied", "4.2": "Operation not permitted"}

// TestKerberosExports has Linux mount exports of many lists of flavors, with flavors that
// they have and flavors that they lack. A mount without sec= takes the first that it can:
// of the export over NFSv3, and over NFSv4 of all exports below the root, until an export
// refuses it. Each flavor has its own rights. A SIGHUP that takes sys away cuts its users
// off from files that they have open, and no others.
func TestKerberosExports(t *testing.T) {
	m, r := newMachine(t)
	root := t.TempDir()
	file := filepath.Join(t.TempDir(), "exports")
	text := strings.ReplaceAll(exportsFile, "DIR", root)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	for line := range strings.Lines(text) {
		dir := strings.Fields(line)[0]
		require.NoError(t, os.Mkdir(dir, 0o777))
		require.NoError(t, os.Chmod(dir, 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content\n"), 0o644))
	}
	d := startDaemon(t, r, "--tcp", gssAddr, "--exports", file)

	options := func(vers, sec string) string {
		o := "port=2049,proto=tcp,noac,vers=" + vers
		if vers == "3" {
			o += ",nolock,mountproto=tcp,mountport=2049"
		}
		if sec != "" {
			o += ",sec=" + sec
		}
		return o
	}
	for _, a := range []struct{ export, sec, want string }{
		{"sys", "sys", "sys"},
		{"sys", "krb5", ""},
		{"krb5", "krb5", "krb5"},
		{"krb5", "sys", ""},
		{"krb5", "krb5p", ""},
		{"krb5i", "", "krb5i"},
		{"krb5p", "krb5i", ""},
		{"none", "none", "null"},
		{"none", "krb5", ""},
		{"list", "", "krb5p"},
		{"list", "krb5i", "krb5i"},
		{"list", "krb5", ""},
		{"list", "sys", "sys"},
		{"squash", "krb5", "krb5"},
		{"squash", "sys", "sys"},
	} {
		for _, vers := range []string{"3", "4.2"} {
			t.Run(strings.Join([]string{a.export, a.sec, vers}, "-"), func(t *testing.T) {
				m := m.withTest(t)
				out, status := m.Try("mount.nfs server.test.example:%s/%s /mnt -v -o %s 2>&1", root, a.export, options(vers, a.sec))
				want := a.want
				if a.export == "list" && a.sec == "" && vers == "4.2" {
					want = "sys"
				}
				if want == "" {
					assert.NotZero(t, status)
					assert.Contains(t, out, "mount(2): "+refusals[vers])
				}
				if status != 0 {
					assert.Empty(t, want, out)
					return
				}
				defer m.Must("umount /mnt")
				got := regexp.MustCompile(`\bsec=(\w+)`).FindStringSubmatch(m.Must("grep ' /mnt ' /proc/mounts"))
				require.NotNil(t, got)
				require.Equal(t, want, got[1])
				m.May("alice", "cat /mnt/file")
				made := strings.Join([]string{a.export, a.sec, vers}, "-")
				out, status = m.As("alice", "echo x >/mnt/%s", made)
				if a.export == "list" && want == "sys" {
					assert.NotZero(t, status)
					assert.Contains(t, out, "Read-only file system")
					return
				}
				require.Zero(t, status, out)
				uid := map[string]uint32{"sys": 1001, "null": 65534}[want] // as the guest says
				if strings.HasPrefix(want, "krb5") {
					uid = 1
				}
				if a.export == "squash" {
					uid = 2
				}
				assert.Equal(t, uid, ownerOf(t, filepath.Join(root, a.export, made)))
			})
		}
	}

	t.Run("SIGHUP", func(t *testing.T) {
		m := m.withTest(t)
		require.NoError(t, os.Chmod(filepath.Join(root, "hangup"), 0o777|os.ModeSticky))
		work := make(map[string]func(string) string)
		var ends []func()
		for _, vers := range []string{"3", "4.2"} {
			for _, sec := range []string{"sys", "krb5"} {
				point := fmt.Sprintf("/mnt-%s-%s", vers, sec)
				m.Mount("server.test.example:"+root+"/hangup", point, options(vers, sec))
				m.May("alice", "mkdir %s/%s-%s", point, vers, sec)
				do, end := m.startLocker("alice", fmt.Sprintf("%s/%s-%s", point, vers, sec))
				require.Equal(t, "ok", do("open 1"))
				require.Equal(t, "ok", do("write 1"))
				work[vers+sec], ends = do, append(ends, end)
			}
		}
		apply := func(text string) {
			said := strings.Count(d.daemonLog(t), "the exports were reloaded")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			d.Signal(syscall.SIGHUP)
			require.Eventually(t, func() bool { return strings.Count(d.daemonLog(t), "the exports were reloaded") > said }, time.Minute, 50*time.Millisecond)
		}
		apply(strings.ReplaceAll(text, "sec=krb5:sys", "sec=krb5"))
		for _, vers := range []string{"3", "4.2"} {
			errno := map[string]string{"3": "EACCES", "4.2": "EPERM"}[vers]
			assert.Equal(t, errno, work[vers+"sys"]("write 1"), vers)
			out, status := m.As("alice", "cat /mnt-%s-sys/file", vers)
			assert.NotZero(t, status, vers)
			assert.Contains(t, out, refusals[vers])
			assert.Equal(t, "ok", work[vers+"krb5"]("write 1"), vers)
			m.May("alice", "cat /mnt-%s-krb5/file", vers)
		}
		apply(text) // without sys, Linux could not close its files, and would repeat DESTROY_CLIENTID for 10 s
		for name, do := range work {
			assert.Equal(t, "ok", do("write 1"), name)
		}
		for _, end := range ends {
			end()
		}
		m.Must("umount /mnt-*")
	})
}
