//go:build interop

package interop

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop/acl4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4acl"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// The host's attributes with POSIX lists.
var listAttrs = [2]string{"system.posix_acl_access", "system.posix_acl_default"}

// posixList returns a list with a user and a group.
func posixList(owner, user, group, named, mask, other uint8) vfs.ACL {
	return vfs.ACL{
		{Tag: vfs.ACLUserObj, Perm: owner},
		{Tag: vfs.ACLUser, ID: 1001, Perm: user},
		{Tag: vfs.ACLGroupObj, Perm: group},
		{Tag: vfs.ACLGroup, ID: 1002, Perm: named},
		{Tag: vfs.ACLMask, Perm: mask},
		{Tag: vfs.ACLOther, Perm: other},
	}
}

// setPOSIX sets a list of a file of the host.
func setPOSIX(t *testing.T, path, attr string, a vfs.ACL) {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range a {
		id := e.ID
		if e.Tag != vfs.ACLUser && e.Tag != vfs.ACLGroup {
			id = 1<<32 - 1
		}
		b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, uint16(e.Tag)), uint16(e.Perm))
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	require.NoError(t, unix.Setxattr(path, attr, b, 0))
}

// posixOf describes the mode and the lists of a file of the host.
func posixOf(t *testing.T, path string) string {
	t.Helper()
	st, err := os.Lstat(path)
	require.NoError(t, err)
	text := st.Mode().String()
	for _, attr := range listAttrs {
		b := make([]byte, 64<<10)
		n, err := unix.Getxattr(path, attr, b)
		switch err {
		case unix.ENODATA, unix.EACCES: // a default list on a non-directory
			n = 0
		default:
			require.NoError(t, err)
		}
		text += fmt.Sprintf(" %x", b[:n])
	}
	return text
}

// aclEntries returns the entries by which POSIX lists should show.
func aclEntries(access, def vfs.ACL, isDir bool) string {
	var a nfs4.ACL
	for _, e := range nfs4acl.FromPOSIX(access, def, isDir) {
		who := fmt.Sprint(e.ID)
		switch e.Kind {
		case nfs4acl.Owner:
			who = nfs4.WhoOwner
		case nfs4acl.OwnerGroup:
			who = nfs4.WhoGroup
		case nfs4acl.Everyone:
			who = nfs4.WhoEveryone
		}
		a = append(a, nfs4.ACE{Type: e.Type, Flag: e.Flag, Mask: e.Mask, Who: []byte(who)})
	}
	return strings.Join(acl4.Text(a), "\n")
}

// TestACL4 shows and sets access control lists by Linux's client over NFSv4.2, and
// compares with the host's lists; what inherits a list must have the mode and the lists
// that it has in a directory of the host (R8881-6.4.3.1-1). With INTEROP_SOAK they are
// also on XFS, and on tmpfs over TCP.
func TestACL4(t *testing.T) {
	sharedGuest(t)
	type system struct {
		kind       string
		longest    uint32 // list, in named users
		transports []string
	}
	systems := []system{{"tmpfs", 600, []string{"rdma"}}, {"ext4", 200, []string{"tcp"}}}
	if os.Getenv("INTEROP_SOAK") != "" {
		systems = []system{{"tmpfs", 600, []string{"rdma", "tcp"}}, {"ext4", 200, []string{"rdma", "tcp"}}, {"xfs", 200, []string{"rdma"}}}
	}
	for _, tt := range systems {
		t.Run(tt.kind, func(t *testing.T) {
			var dir string
			if tt.kind == "tmpfs" {
				dir = mountTmpfs(t)
			} else {
				dir = newDiskOf(t, tt.kind).dir
			}
			d := serveDir(t, dir, "--no-root-squash")
			s := d.guestSite().withVersion("4.2")
			for _, transport := range tt.transports {
				s.mountInGuest(t, "/mnt", s.mountOptions(transport, "noac")) // or it keeps lists that the host has changed
				at := filepath.Join(dir, transport)
				require.NoError(t, os.Mkdir(at, 0o755))
				checkACLs4(t, at, "/mnt/"+transport, tt.longest)
				checkInheritance4(t, at, "/mnt/"+transport)
				unmountInGuest(t, "/mnt")
			}
			// All versions have the attribute, also if the client walks into the export
			// from the root.
			s.export = "/"
			for _, vers := range []string{"4.0", "4.1", "4.2"} {
				s = s.withVersion(vers)
				s.mountInGuest(t, "/mnt", s.mountOptions("tcp"))
				f := "/mnt/x/" + tt.transports[0] + "/f"
				mustInGuest(t, fmt.Sprintf("guestwork acl4 %[1]s A::OWNER@:rt A::1001:rt && guestwork acl4 %[1]s | grep -q ^A::1001:rtcy$", f))
				unmountInGuest(t, "/mnt")
			}
			d.stopGracefully()
		})
	}
}

// checkACLs4 shows and sets lists of files and directories, which the guest has at
// point.
func checkACLs4(t *testing.T, at, point string, longest uint32) {
	long := posixList(7, 4, 5, 6, 7, 1)[:1]
	for i := range longest {
		long = append(long, vfs.ACLEntry{Tag: vfs.ACLUser, ID: 2000 + i, Perm: uint8(i % 8)})
	}
	long = append(long, posixList(7, 4, 5, 6, 7, 1)[2:]...)
	onHost(t, at, "touch f g && mkdir d e")
	for _, a := range []vfs.ACL{
		posixList(7, 4, 5, 6, 7, 1), posixList(6, 4, 0, 0, 4, 0), posixList(0, 7, 1, 2, 7, 4), long, vfs.ModeACL(0o751), vfs.ModeACL(0o046),
	} {
		for _, isDir := range []bool{false, true} {
			from, to, def := "f", "g", vfs.ACL(nil)
			if isDir {
				from, to, def = "d", "e", a
				setPOSIX(t, filepath.Join(at, from), listAttrs[1], def)
			}
			setPOSIX(t, filepath.Join(at, from), listAttrs[0], a)
			want := aclEntries(a, def, isDir)
			got := strings.TrimSpace(mustInGuest(t, "guestwork acl4 "+point+"/"+from))
			require.Equal(t, want, got)
			mustInGuest(t, fmt.Sprintf("guestwork acl4 %s/%s %s", point, to, strings.ReplaceAll(got, "\n", " ")))
			assert.Equal(t, posixOf(t, filepath.Join(at, from)), posixOf(t, filepath.Join(at, to)))
			mustInGuest(t, fmt.Sprintf("chmod 640 %s/%s", point, to))
			onHost(t, at, "chmod 640 "+from)
			assert.Equal(t, posixOf(t, filepath.Join(at, from)), posixOf(t, filepath.Join(at, to)))
		}
	}
	before := posixOf(t, filepath.Join(at, "g"))
	for wrong, errno := range map[string]string{
		"U::EVERYONE@:r": "input/output error", "A:fdi:OWNER@:r": "input/output error", "D::EVERYONE@:t": "input/output error",
		"A::nobody-at-all@nowhere.invalid:r": "invalid argument",
	} {
		out, status := tryInGuest(t, fmt.Sprintf("guestwork acl4 %s/g A::OWNER@:r %s", point, wrong))
		assert.NotZero(t, status, wrong)
		assert.Contains(t, out, errno, wrong)
	}
	assert.Equal(t, before, posixOf(t, filepath.Join(at, "g")))
}

// checkInheritance4 makes files and directories in directories with and without a list that
// is inherited, by several umasks.
func checkInheritance4(t *testing.T, at, point string) {
	onHost(t, at, "mkdir plain list plain-local list-local")
	want := posixList(7, 7, 5, 4, 7, 1)
	mustInGuest(t, fmt.Sprintf("guestwork acl4 %s/list %s", point, strings.ReplaceAll(aclEntries(vfs.ModeACL(0o755), want, true), "\n", " ")))
	setPOSIX(t, filepath.Join(at, "list-local"), listAttrs[1], want)
	assert.Equal(t, posixOf(t, filepath.Join(at, "list-local")), posixOf(t, filepath.Join(at, "list")))
	for _, in := range []string{"plain", "list"} {
		for _, umask := range []string{"000", "022", "077", "727"} {
			script := fmt.Sprintf("umask %[1]s; cd %%s/%%s; mkdir d%[1]s; : >f%[1]s; mkfifo p%[1]s; ln -s to l%[1]s", umask)
			mustInGuest(t, fmt.Sprintf(script, point, in))
			onHost(t, at, fmt.Sprintf(script, at, in+"-local"))
			for _, kind := range []string{"d", "f", "p", "l"} {
				local, remote := filepath.Join(at, in+"-local", kind+umask), filepath.Join(at, in, kind+umask)
				if kind != "l" { // links have neither
					assert.Equal(t, posixOf(t, local), posixOf(t, remote), "%s in %s", kind+umask, in)
				}
			}
		}
	}
	assert.NotEqual(t, posixOf(t, filepath.Join(at, "plain/f022")), posixOf(t, filepath.Join(at, "list/f022")))
}

// TestNoACL4 checks that Linux's client says of a file system without lists that
// it has none.
func TestNoACL4(t *testing.T) {
	sharedGuest(t)
	d := startDaemonWith(t, t.TempDir(), []string{"mem:64MiB=/x"}, "--no-root-squash")
	s := d.guestSite().withVersion("4.2")
	s.mountInGuest(t, "/mnt", s.mountOptions("tcp"))
	for _, call := range []string{"", " A::OWNER@:r"} {
		out, status := tryInGuest(t, "guestwork acl4 /mnt"+call)
		assert.NotZero(t, status)
		assert.Contains(t, out, "operation not supported")
	}
	unmountInGuest(t, "/mnt")
}
