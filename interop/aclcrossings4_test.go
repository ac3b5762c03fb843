//go:build interop

package interop

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestACLWhileCached4 checks that a list which Linux sets over NFSv4.2 counts at the next
// open of a file that a mount of mountrdma has in its cache, by delegation counters: for
// a user who may read it no longer, and for one who may now.
func TestACLWhileCached4(t *testing.T) {
	sharedGuest(t)
	control := filepath.Join(t.TempDir(), "control")
	d := serveDir(t, mountTmpfs(t), "--no-root-squash", "--control", control)
	onHost(t, d.dir, "chmod 755 .; echo content >readable; echo content >private; chmod 640 private")
	m := mountServer{addr: d.rdma, guestSite: d.guestSite()}.mountFUSE(t)
	s := d.guestSite().withVersion("4.2")
	s.mountInGuest(t, "/mnt", s.mountOptions("tcp"))
	for _, c := range []struct {
		file, list string
		mayAfter   bool
	}{
		{"readable", "D::1001:r", false},
		{"private", "A::1001:rtcy", true},
	} {
		t.Run(c.file, func(t *testing.T) {
			read := func(as string) bool {
				out, err := tryOnHost("/", fmt.Sprintf("%s cat %s/%s", as, m.point, c.file))
				if err == nil {
					assert.Equal(t, "content\n", out)
				} else {
					assert.Contains(t, out, "Permission denied")
				}
				return err == nil
			}
			const user = "setpriv --reuid 1001 --regid 1001 --clear-groups"
			before := statusOf(t, control).Grants.Granted
			eventually(t, func() bool {
				assert.True(t, read(""))
				assert.Equal(t, !c.mayAfter, read(user))
				return statusOf(t, control).Grants.Granted > before
			}, daemonLimit, pollEvery)
			recalled := statusOf(t, control).Grants.Recalled
			assert.Equal(t, !c.mayAfter, read(user))
			mustInGuest(t, fmt.Sprintf("guestwork acl4 /mnt/%s A::OWNER@:rwatTcCy %s A::GROUP@:rtcy A::EVERYONE@:%stcy",
				c.file, c.list, map[bool]string{false: "r"}[c.mayAfter]))
			assert.Equal(t, c.mayAfter, read(user))
			assert.True(t, read(""))
			assert.Greater(t, statusOf(t, control).Grants.Recalled, recalled)
		})
	}
	unmountInGuest(t, "/mnt")
	m.unmountFUSE()
	d.stopGracefully()
}

// TestACLSquashed4 checks that Linux's root, which is squashed, sets lists of its own
// files alone, and that lists count for it as for others.
func TestACLSquashed4(t *testing.T) {
	sharedGuest(t)
	d := serveDir(t, mountTmpfs(t))
	onHost(t, d.dir, "chmod 755 .; for f in root alice nobody; do echo $f >$f; chmod 600 $f; done; chown 1001:1001 alice; chown 65534:65534 nobody")
	s := d.guestSite().withVersion("4.2")
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma", "noac"))
	const only = " A::OWNER@:rwatTcCy A::1001:rtcy A::GROUP@:tcy A::EVERYONE@:tcy"
	for _, f := range []string{"root", "alice"} {
		before := posixOf(t, filepath.Join(d.dir, f))
		out, status := tryInGuest(t, "guestwork acl4 /mnt/"+f+only)
		assert.NotZero(t, status, f)
		assert.Contains(t, out, "operation not permitted", f)
		assert.Equal(t, before, posixOf(t, filepath.Join(d.dir, f)))
	}
	mustInGuest(t, "guestwork acl4 /mnt/nobody"+only)
	mustInGuest(t, "for u in 1001 1002; do grep -q ^user$u: /etc/passwd || echo user$u:x:$u:$u::/:/bin/sh >>/etc/passwd; done")
	names := map[int]string{0: "root", 1001: "user1001", 1002: "user1002", 65534: "nobody"}
	as := func(user int, path string) (string, int) {
		return tryInGuest(t, fmt.Sprintf("su -s /bin/sh %s -c 'cat /mnt/%s'", names[user], path))
	}
	for user, may := range map[int]bool{0: true, 1001: true, 1002: false, 65534: true} {
		out, status := as(user, "nobody")
		assert.Equal(t, may, status == 0, "%d: %s", user, out)
		assert.Contains(t, out, map[bool]string{true: "nobody\n", false: "Permission denied"}[may])
	}
	mustInGuest(t, "guestwork acl4 /mnt/nobody A::OWNER@:tTcCy A::1002:rtcy A::GROUP@:tcy A::EVERYONE@:tcy")
	for user, may := range map[int]bool{0: false, 1001: false, 1002: true, 65534: false} {
		out, status := as(user, "nobody")
		assert.Equal(t, may, status == 0, "%d: %s", user, out)
		assert.Contains(t, out, map[bool]string{true: "nobody\n", false: "Permission denied"}[may])
	}
	out, status := as(0, "root")
	assert.NotZero(t, status, out)
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}
