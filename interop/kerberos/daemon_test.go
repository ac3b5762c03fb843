//go:build interop

package kerberos

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A kerberosDaemon is a running nfsrdmad. Alice and bob are users of the host by idmapd.conf: 1
// and 2 of a Debian.
type kerberosDaemon struct {
	*interop.Server
	dir, control, program string
	flags                 []string
	log                   *os.File
}

// newDaemon starts a daemon that serves a directory, to which all users may write, as /x.
// More flags win over those that all tests have.
func newDaemon(t *testing.T, r *testRealm, sec string, more ...string) *kerberosDaemon {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	d := startDaemon(t, r, append(more, "--sec", sec, dir+"=/x")...)
	d.dir = dir
	return d
}

// startDaemon starts a daemon with exports of its flags.
func startDaemon(t *testing.T, r *testRealm, more ...string) *kerberosDaemon {
	t.Helper()
	d := &kerberosDaemon{program: programPath(t, "nfsrdmad"), control: filepath.Join(t.TempDir(), "control")}
	rules := filepath.Join(t.TempDir(), "idmapd.conf")
	require.NoError(t, os.WriteFile(rules, []byte(Idmap), 0o600))
	var err error
	d.log, err = os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	d.flags = append([]string{
		"--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--state", t.TempDir(), "--control", d.control,
		"--keytab", r.kdc.Keytab("acceptor"), "--idmap", rules,
	}, more...)
	d.Server, err = interop.StartServer(d.log, d.program, d.flags...)
	require.NoError(t, err)
	t.Cleanup(func() {
		d.Kill()
		d.log.Close()
		if t.Failed() {
			t.Logf("the daemon says:\n%s", d.daemonLog(t))
		}
	})
	return d
}

func (d *kerberosDaemon) daemonLog(t *testing.T) string {
	text, err := os.ReadFile(d.log.Name())
	require.NoError(t, err)
	return string(text)
}

// runCommand returns what a command of nfsrdmad prints about the daemon.
func (d *kerberosDaemon) runCommand(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command(d.program, command, "--control", d.control).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// startBridge starts mountrdma's bridge to d, and returns its address.
func (d *kerberosDaemon) startBridge(t *testing.T, flags ...string) string {
	t.Helper()
	cmd := exec.Command(programPath(t, "mountrdma"), append([]string{"bridge", "--listen", "127.0.0.1:0", d.RDMA}, flags...)...)
	ready, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = d.log
	bridge, err := interop.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(bridge.Kill)
	var addr string
	_, err = fmt.Fscanf(ready, "ready tcp=%s", &addr)
	require.NoError(t, err)
	return addr
}

// dialAll are a connection over TCP, one over RDMA, and one over TCP to a bridge.
func (d *kerberosDaemon) dialAll(t *testing.T) map[string]oncrpc.Caller {
	tcp, err := oncrpc.DialTCP(t.Context(), d.TCP, oncrpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { tcp.Close() })
	rdma, err := rpcrdma.Dial(t.Context(), iwarp.Open(iwarp.Config{}), d.RDMA, rpcrdma.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { rdma.Close() })
	bridge, err := oncrpc.DialTCP(t.Context(), d.startBridge(t), oncrpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { bridge.Close() })
	return map[string]oncrpc.Caller{"tcp": tcp, "rdma": rdma, "bridge": bridge}
}

// newSecureClient returns a client of NFS whose calls MIT's library protects.
func (r *testRealm) newSecureClient(line oncrpc.Caller, flavor uint32) (*nfsclient.Client, *rpcsec.Client) {
	c := rpcsec.NewClient(line, rpcsec.ClientConfig{
		Begin:  func(context.Context, []byte) (gss.Initiator, error) { return r.peer.newInitiator(server), nil },
		Flavor: flavor, Prog: nfs3.Program, Vers: nfs3.Version,
	})
	return nfsclient.New(c, nfsclient.Config{}), c
}

// rootOf asks for the root of /x by AUTH_SYS, as Linux's client does.
func rootOf(t *testing.T, line oncrpc.Caller) nfs3.FH {
	t.Helper()
	path := mount3.PathArgs{Path: []byte("/x")}
	x := oncrpc.Exchange{
		Prog: mount3.Program, Vers: mount3.Version, Proc: mount3.ProcMnt, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, Args: path.AppendTo(nil), MaxResults: 1000,
	}
	require.NoError(t, line.Call(t.Context(), &x))
	defer x.Release()
	var res mount3.MntRes
	res.Decode(&x.Results)
	require.NoError(t, x.Results.Done())
	require.Equal(t, mount3.OK, res.Status)
	assert.Equal(t, []uint32{rpcmsg.AuthKrb5p, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5}, res.Flavors)
	return bytes.Clone(res.Handle)
}

// TestKerberosDaemon has users with tickets of MIT's KDC, whose calls MIT's library
// protects, create, write and read files of nfsrdmad, by each flavor, over TCP, over
// RDMA, and through a bridge. A context made over TCP serves calls over RDMA
// (R8166-8.2.2.1-1, R2203-RDMA-6), the service is nfs@host (R2623-3.1-1), and the files
// are those of the principal's user.
func TestKerberosDaemon(t *testing.T) {
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	d := newDaemon(t, r, "krb5p:krb5i:krb5")
	lines := d.dialAll(t)
	_, err := nfsclient.NewMount(lines["tcp"], nil).Mnt(t.Context(), "/x")
	require.ErrorContains(t, err, "the export /x wants krb5p, krb5i, krb5; the mount says sec=sys")
	root := rootOf(t, lines["tcp"])
	_, err = nfsclient.New(lines["tcp"], nfsclient.Config{}).CreateNew(t.Context(), nfs3.DirOpArgs{Dir: root, Name: []byte("sys")}, nfs3.SetAttr{})
	require.ErrorIs(t, err, rpcmsg.AuthTooWeak)

	data := make([]byte, 256<<10)
	_, _ = rand.Read(data)
	for _, flavor := range []uint32{rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p} {
		for name, line := range lines {
			t.Run(fmt.Sprintf("%s/%d", name, flavor), func(t *testing.T) {
				c, s := r.newSecureClient(line, flavor)
				file := fmt.Sprintf("%s %d", name, flavor)
				made, err := c.CreateNew(t.Context(), nfs3.DirOpArgs{Dir: root, Name: []byte(file)}, nfs3.SetAttr{})
				require.NoError(t, err)
				wrote, err := c.Write(t.Context(), made.Object, 0, data, nfs3.FileSync)
				require.NoError(t, err)
				assert.EqualValues(t, len(data), wrote.Count)
				got := make([]byte, len(data)+1)
				read, err := c.Read(t.Context(), made.Object, 0, got)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(data, got[:read.Count]))
				assert.True(t, read.EOF)
				content, err := os.ReadFile(filepath.Join(d.dir, file))
				require.NoError(t, err)
				assert.True(t, bytes.Equal(data, content))
				info, err := os.Stat(filepath.Join(d.dir, file))
				require.NoError(t, err)
				if os.Getuid() == 0 {
					assert.EqualValues(t, 1, info.Sys().(*syscall.Stat_t).Uid, "alice is the user daemon")
				}
				s.Close(t.Context())
			})
		}
	}

	// A context of the TCP connection serves calls over RDMA.
	x := &switchableCaller{Caller: lines["tcp"]}
	c, s := r.newSecureClient(x, rpcmsg.AuthKrb5p)
	require.NoError(t, c.Null(t.Context()))
	x.Caller = lines["rdma"]
	res, err := c.FSInfo(t.Context(), root)
	require.NoError(t, err)
	assert.Equal(t, nfs3.OK, res.Status)

	out, err := exec.Command(d.program, "status", "--json", "--control", d.control).Output()
	require.NoError(t, err)
	var status struct {
		Kerberos struct {
			Contexts, Made int
			Calls          map[string]int
			List           []struct {
				Principal string
				UID       int
			} `json:"context_list"`
		}
	}
	require.NoError(t, json.Unmarshal(out, &status), "%s", out)
	assert.Equal(t, []int{1, 10}, []int{status.Kerberos.Contexts, status.Kerberos.Made})
	assert.Positive(t, status.Kerberos.Calls["krb5"])
	assert.Positive(t, status.Kerberos.Calls["krb5i"])
	assert.Positive(t, status.Kerberos.Calls["krb5p"])
	require.Len(t, status.Kerberos.List, 1)
	assert.Equal(t, "alice@"+Realm, status.Kerberos.List[0].Principal)
	s.Close(t.Context())
}

// switchableCaller is a Caller whose connection the test changes.
type switchableCaller struct{ oncrpc.Caller }

// TestKerberosDaemonKeys checks that the daemon accepts a ticket under a key that
// was added while it runs, without a signal, and that its log and status explain why
// a ticket whose key it lacks is rejected.
func TestKerberosDaemonKeys(t *testing.T) {
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	d := newDaemon(t, r, "krb5")
	line := d.dialAll(t)["tcp"]
	require.NoError(t, r.kdc.runAdmin("cpw -randkey -keepold nfs/server.test.example"))
	require.NoError(t, r.kdc.addUser("bob")) // a new cache: its ticket has the new key
	c, _ := r.newSecureClient(line, rpcmsg.AuthKrb5)
	require.Error(t, c.Null(t.Context()))
	assert.Contains(t, d.daemonLog(t), "a client has a ticket for nfs/server.test.example with key version 2; the keytab has 1")
	assert.Contains(t, d.runCommand(t, "status"), "contexts rejected, by reason: key version 1")

	require.NoError(t, r.kdc.runAdmin("ktadd -k %s -norandkey nfs/server.test.example", r.kdc.Keytab("acceptor")))
	c, s := r.newSecureClient(line, rpcmsg.AuthKrb5)
	require.NoError(t, c.Null(t.Context()))
	s.Close(t.Context())
}
