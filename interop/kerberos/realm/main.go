// Command realm serves a realm of Kerberos for programs on this host, until SIGTERM.
// Its argument is an empty directory, into which it puts:
//
//	krb5.conf          the configuration of all programs
//	server.keytab      the key of nfs/localhost
//	machine.keytab     the key of host/client
//	idmapd.conf        host/client is root
//
// It prints "ready tcp=ADDR" once the KDC answers.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop/kerberos"
)

const enctype = "aes256-cts-hmac-sha1-96"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "realm: usage: realm DIRECTORY")
		os.Exit(2)
	}
	if err := serve(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "realm:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, dir string) error {
	kdc, err := kerberos.StartKDC(dir, enctype)
	if err != nil {
		return err
	}
	defer kdc.Kill()
	if err := kdc.AddService("server", "nfs/localhost"); err != nil {
		return err
	}
	if err := kdc.AddService("machine", "host/client"); err != nil {
		return err
	}
	rules := "[Translation]\nGSS-Methods = static\n[Static]\nhost/client@" + kerberos.Realm + " = root\n"
	if err := os.WriteFile(filepath.Join(dir, "idmapd.conf"), []byte(rules), 0o600); err != nil {
		return err
	}
	fmt.Printf("ready tcp=%s\n", kdc.Addr)
	<-ctx.Done()
	return nil
}
