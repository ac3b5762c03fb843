package kerberos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nfsrdma/nfsrdma/interop"
)

// Idmap is an idmapd.conf(5) for servers in the realm: alice and bob are the users 1 and
// 2 of a Debian.
const Idmap = "[Translation]\nGSS-Methods = static\n[Static]\nalice@" + Realm + " = daemon\nbob@" + Realm + " = bin\n"

// Populate creates the principals for the users and hosts in the guest's tests. Linux's
// server is localhost, because the guest's ports are forwarded from this host.
func (k *KDC) Populate() error {
	for _, user := range []string{"alice", "bob"} {
		if err := k.addUser(user); err != nil {
			return err
		}
	}
	for keytab, services := range map[string][]string{
		"acceptor": {"nfs/server.test.example", "nfs/second.test.example"},
		"machine":  {"host/guest"},
		"knfsd":    {"nfs/localhost"},
	} {
		for _, service := range services {
			if err := k.AddService(keytab, service); err != nil {
				return err
			}
		}
	}
	return nil
}

// Join makes a guest a client in the realm, which Populate has filled: alice and bob get
// tickets, which rpc.gssd finds, and carol gets none.
func (k *KDC) Join(ctx context.Context, g *interop.Guest) error {
	_, port, err := net.SplitHostPort(k.Addr)
	if err != nil {
		return err
	}
	conf := filepath.Join(k.dir, "guest.conf")
	if err := os.WriteFile(conf, []byte(k.clientConfig("10.0.2.2:"+port)), 0o600); err != nil {
		return err
	}
	for file, path := range map[string]string{
		conf: "/etc/krb5.conf", k.Keytab("machine"): "/etc/krb5.keytab", k.Keytab("knfsd"): "/etc/knfsd.keytab",
	} {
		if err := g.Push(ctx, file, path); err != nil {
			return err
		}
	}
	out, status, err := g.Exec(ctx, fmt.Sprintf(`date -s @%d && chmod 644 /etc/krb5.conf && chmod 600 /etc/*.keytab || exit
		echo 10.0.3.2 second.test.example >>/etc/hosts
		for m in rpcsec_gss_krb5 cts ecb; do modprobe $m || exit; done
		for user in alice bob; do
			su -s /bin/sh -c "echo secret | kinit -c FILE:/tmp/krb5cc_\$(id -u) $user" $user || exit
		done
		rpc.gssd -f -vv -p /var/lib/nfs/rpc_pipefs >/tmp/gssd.log 2>&1 &
		for i in $(seq 100); do
			ls -l /proc/$!/fd | grep -q rpc_pipefs/gssd/ && exit
			usleep 100000
		done
		cat /tmp/gssd.log; exit 1`, time.Now().Unix()))
	if err == nil && status != 0 {
		err = errors.New(out)
	}
	return err
}
