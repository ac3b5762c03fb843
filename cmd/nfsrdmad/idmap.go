package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
)

// defaultIdmap is the default for --idmap with Kerberos, if it exists.
const defaultIdmap = "/etc/idmapd.conf"

// idmapRules returns the rules in the file of --idmap, with the domain of --idmap-domain if
// that is given. With Kerberos there is a default file, and the keytab's realm is local if no
// other realm is.
func (o *serveOptions) idmapRules() (idmap.Rules, error) {
	return o.idmapRulesWith(o.kerberos.acceptor.Load())
}

// idmapRulesWith returns these rules for an acceptor, which is nil without Kerberos.
func (o *serveOptions) idmapRulesWith(a *krb5.Acceptor) (rules idmap.Rules, err error) {
	if file := o.idmapPathWith(a); file != "" {
		text, err := os.ReadFile(file)
		if err != nil && (o.idmapFile != "" || !errors.Is(err, fs.ErrNotExist)) {
			return rules, fmt.Errorf("--idmap: %s cannot be read (%w): correct its name or its permissions", file, cli.Cause(err))
		}
		if rules, err = idmap.ParseFile(file, text); err != nil {
			return rules, err
		}
	}
	if o.idmapDomain != "" {
		rules.Domain = o.idmapDomain
	}
	rules = rules.Defaults()
	if a == nil || len(rules.Realms) > 0 {
		return rules, nil
	}
	// alice in one realm is not alice in the other
	if rules.Realms = a.Realms(); len(rules.Realms) > 1 {
		return rules, fmt.Errorf("the keytab has keys for the realms %s: list those whose principals are users of this host as Local-Realms in %s",
			strings.Join(rules.Realms, ", "), o.idmapPathWith(a))
	}
	return rules, nil
}

// idmapPath returns the file with the rules, or "".
func (o *serveOptions) idmapPath() string { return o.idmapPathWith(o.kerberos.acceptor.Load()) }

// idmapPathWith returns that file for an acceptor, which is nil without Kerberos.
func (o *serveOptions) idmapPathWith(a *krb5.Acceptor) string {
	if o.idmapFile == "" && a != nil {
		return defaultIdmap
	}
	return o.idmapFile
}

// reloadIdmap applies the current file of --idmap, and drops cached results of the user
// database. If the file is invalid, the rules do not change, and the log has the reason.
func (o *serveOptions) reloadIdmap(log *slog.Logger) error {
	file := o.idmapPath()
	if file == "" && o.idmapDomain == "" {
		return nil // the database is not used
	}
	rules, err := o.idmapRules()
	if err != nil {
		for _, e := range splitJoined(err) {
			log.Error("cannot reload the name mapping file: the name mapping rules are unchanged", "file", file, "err", e)
		}
		o.owners.Forget() // users may have lost groups
		return fmt.Errorf("the name mapping rules are unchanged:\n%w", err)
	}
	o.owners.SetRules(rules)
	log.Info("name mapping rules reloaded, cached users dropped", "domain", rules.Domain)
	return nil
}
