package kerberos

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/interop"
)

// Realm is the realm that StartKDC uses.
const Realm = "TEST.EXAMPLE"

const kdcLimit = 20 * time.Second // time for a KDC to become ready

// A KDC serves a realm on one loopback TCP port, as any user.
type KDC struct {
	*interop.Process
	Addr    string // host:port
	realm   string
	dir     string
	enctype string
}

const clientConfig = `[libdefaults]
	default_realm = %[1]s
	dns_lookup_kdc = false
	dns_lookup_realm = false
	dns_canonicalize_hostname = false
	rdns = false
	udp_preference_limit = 1
	permitted_enctypes = %[2]s
	forwardable = true
[realms]
	%[1]s = {
		kdc = %[3]s
	}
[domain_realm]
	.test.example = %[1]s
`

const serverConfig = `[kdcdefaults]
	kdc_listen = ""
	kdc_tcp_listen = %[4]s
[realms]
	%[1]s = {
		database_name = %[3]s/principal
		key_stash_file = %[3]s/stash
		acl_file = %[3]s/acl
		supported_enctypes = %[2]s:normal
		master_key_type = %[2]s
		max_life = 10h
	}
[logging]
	kdc = FILE:%[3]s/kdc.log
	admin_server = FILE:%[3]s/admin.log
`

// StartKDC creates Realm in dir with keys and tickets that use only one encryption type,
// and serves it.
func StartKDC(dir, enctype string) (*KDC, error) { return startRealm(dir, Realm, enctype) }

// startRealm starts a KDC for a realm with another name.
func startRealm(dir, realm, enctype string) (*KDC, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &KDC{Addr: free.Addr().String(), realm: realm, dir: dir, enctype: enctype}
	free.Close()
	for name, text := range map[string]string{
		"krb5.conf": k.clientConfig(k.Addr), "kdc.conf": fmt.Sprintf(serverConfig, realm, enctype, dir, k.Addr),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := k.runCommand("", "/usr/sbin/kdb5_util", "create", "-s", "-P", "master password", "-r", realm); err != nil {
		return nil, err
	}
	cmd := exec.Command("/usr/sbin/krb5kdc", "-n", "-r", realm)
	cmd.Env = k.environ()
	if k.Process, err = interop.StartProcess(cmd); err != nil {
		return nil, err
	}
	for until := time.Now().Add(kdcLimit); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", k.Addr)
		if err == nil {
			c.Close()
			return k, nil
		}
		if time.Now().After(until) {
			k.Kill()
			return nil, fmt.Errorf("krb5kdc: %w", err)
		}
	}
}

// clientConfig returns a krb5.conf(5) for a host that reaches the KDC at an address.
func (k *KDC) clientConfig(addr string) string {
	return fmt.Sprintf(clientConfig, k.realm, k.enctype, addr)
}

// environ is the environment for programs that use the KDC. They share a credential cache,
// and acceptors with MIT's library have the keytab "acceptor".
func (k *KDC) environ() []string {
	return append(os.Environ(), "KRB5_CONFIG="+filepath.Join(k.dir, "krb5.conf"), "KRB5_KDC_PROFILE="+filepath.Join(k.dir, "kdc.conf"),
		"KRB5CCNAME=FILE:"+filepath.Join(k.dir, "ccache"), "KRB5RCACHENAME=none:", "KRB5_KTNAME="+k.Keytab("acceptor"))
}

// Keytab returns the path of a keytab with that name.
func (k *KDC) Keytab(name string) string { return filepath.Join(k.dir, name+".keytab") }

// runAdmin runs a kadmin.local(8) command.
func (k *KDC) runAdmin(format string, args ...any) error {
	return k.runCommand("", "/usr/sbin/kadmin.local", "-r", k.realm, "-q", fmt.Sprintf(format, args...))
}

// AddService creates a principal, and adds its keys to the keytab with that name.
func (k *KDC) AddService(keytab, principal string) error {
	if err := k.runAdmin("addprinc -randkey %s", principal); err != nil {
		return err
	}
	return k.runAdmin("ktadd -k %s -norandkey %s", k.Keytab(keytab), principal)
}

// addUser makes a principal, and gets its ticket into the default cache.
func (k *KDC) addUser(name string) error {
	if err := k.runAdmin("addprinc -pw secret %s", name); err != nil {
		return err
	}
	return k.runCommand("secret\n", "kinit", name)
}

func (k *KDC) runCommand(input, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	var out bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = k.environ(), strings.NewReader(input), &out, &out
	p, err := interop.StartProcess(cmd)
	if err != nil {
		return err
	}
	if p.ExitCode() != 0 || program == "/usr/sbin/kadmin.local" && bytes.Contains(out.Bytes(), []byte("while")) {
		return fmt.Errorf("%s %q: %s", program, args, out.Bytes())
	}
	return nil
}
