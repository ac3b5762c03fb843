//go:build interop

package kerberos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// knfsdFlavors are the flavors with which Linux's server works. The one of 6.1 answers
// each call with krb5p with GARBAGE_ARGS.
func knfsdFlavors() map[string]uint32 {
	flavors := map[string]uint32{"krb5": rpcmsg.AuthKrb5, "krb5i": rpcmsg.AuthKrb5i}
	if os.Getenv("INTEROP_KERNEL") == "6.12" {
		flavors["krb5p"] = rpcmsg.AuthKrb5p
	}
	return flavors
}

// startKnfsd makes Linux's server serve /export/k with Kerberos, until the test ends.
func (m kerberosGuest) startKnfsd() {
	m.Helper()
	m.Must(`mkdir -p /export/k && chmod 1777 /export/k &&
		exportfs -o rw,insecure,no_subtree_check,fsid=77,sec=krb5p:krb5i:krb5 '*:/export/k' || exit
		KRB5_KTNAME=/etc/knfsd.keytab rpc.svcgssd -f -vvv -n >/tmp/svcgssd.log 2>&1 &
		for i in $(seq 100); do
			ls -l /proc/$!/fd | grep -q auth.rpcsec && exit
			usleep 100000
		done
		cat /tmp/svcgssd.log; exit 1`)
	m.Cleanup(func() {
		out, _ := m.Try("killall rpc.svcgssd; exportfs -u '*:/export/k'; rm -rf /export/k; tail -n 60 /tmp/svcgssd.log")
		if m.Failed() {
			m.Logf("rpc.svcgssd says:\n%s", out)
		}
	})
}

// runAs runs a program as a user of h, without a directory of that user's.
func (h *clientHost) runAs(uid uint32, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = []string{"KRB5_CONFIG=" + h.dir + "/krb5.conf"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: 100}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestKerberosKnfsd has users of this host with tickets write files to Linux's server,
// and read them: by mountrdma without a mount over RDMA and TCP, and by NFS version 3 over TCP.
// The files are those of their principals, and each may do what that user may. A user
// without a ticket is told to get one.
func TestKerberosKnfsd(t *testing.T) {
	m, r := newMachine(t)
	h := hostOf(r)
	m.startKnfsd()
	uids := map[string]uint32{"alice": 1001, "bob": 1002}
	for user, uid := range uids {
		h.getTicket(user, int(uid))
	}
	data := bytes.Repeat([]byte("data of a user\n"), 100_000)
	file := filepath.Join(h.dir, "data")
	require.NoError(t, os.WriteFile(file, data, 0o644))
	mountrdma, mountd := programPath(t, "mountrdma"), m.Addr(20048)
	for sec, flavor := range knfsdFlavors() {
		for proto, port := range map[string]int{"rdma": 20049, "tcp": 2049} {
			t.Run(sec+"-by-"+proto, func(t *testing.T) {
				url := func(user string) string {
					return fmt.Sprintf("nfs://%s/export/k/%s-%s-%s?mountport=%s", m.Addr(port), sec, proto, user, portOf(t, mountd))
				}
				run := func(uid uint32, command, sec string, args ...string) (string, error) {
					return h.runAs(uid, mountrdma, append([]string{command, "--proto", proto, "--sec", sec}, args...)...)
				}
				for user, uid := range uids {
					out, err := run(uid, "cp", sec, file, url(user))
					require.NoError(t, err, "%s", out)
					out, err = run(uid, "cat", sec, url(user))
					require.NoError(t, err, "%.200s", out)
					assert.True(t, out == string(data))
					assert.Equal(t, fmt.Sprintf("%d\n", uid), m.Must("stat -c %%u /export/k/%s-%s-%s", sec, proto, user))
				}
				out, err := run(1002, "rm", sec, url("alice"))
				require.Error(t, err, "%s", out)
				assert.Contains(t, out, "operation not permitted")
				out, err = run(1003, "cat", sec, url("alice"))
				require.Error(t, err)
				assert.Contains(t, out, "kinit")
				out, err = run(1001, "cat", "sys", url("alice"))
				require.Error(t, err)
				assert.Contains(t, out, "the export /export/k wants krb5p, krb5i, krb5; the mount says sec=sys")
			})
		}
		t.Run(sec+"-calls", func(t *testing.T) {
			dial := func(addr string) oncrpc.Caller {
				line, err := oncrpc.DialTCP(t.Context(), addr, oncrpc.ClientConfig{})
				require.NoError(t, err)
				t.Cleanup(func() { line.Close() })
				return line
			}
			sys := rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
			root, _, err := nfsclient.NewMount(dial(mountd), &sys).MntFlavors(t.Context(), "/export/k")
			require.NoError(t, err)
			callers := h.callersOf("nfs@localhost", dial(m.Addr(2049)), nfs3.Program, nfs3.Version)
			of := func(uid uint32) *nfsclient.FS {
				cred := rpcmsg.Cred{Flavor: flavor, UID: uid, GID: 100}
				fs, err := nfsclient.New(callers, nfsclient.Config{Cred: &cred}).FS(t.Context(), root, "/export/k")
				require.NoError(t, err)
				return fs
			}
			for user, uid := range uids {
				name := sec + "-calls-" + user
				f, err := of(uid).Create(t.Context(), name, 0o600)
				require.NoError(t, err)
				_, err = f.WriteAt(t.Context(), data, 0)
				require.NoError(t, err)
				got := make([]byte, len(data))
				_, err = f.ReadAt(t.Context(), got, 0)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(data, got))
				assert.Equal(t, fmt.Sprintf("%d\n", uid), m.Must("stat -c %%u /export/k/%s", name))
			}
			f, err := of(1002).Open(t.Context(), sec+"-calls-alice")
			require.NoError(t, err)
			_, err = f.ReadAt(t.Context(), make([]byte, 1), 0)
			assert.ErrorIs(t, err, syscall.EACCES)
			_, err = of(1003).Lstat(t.Context(), sec+"-calls-alice")
			assert.ErrorContains(t, err, "run kinit")
		})
	}
}
