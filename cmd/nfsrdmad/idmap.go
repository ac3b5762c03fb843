package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/gss/krb5"
	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// defaultIdmap is the file of --idmap with Kerberos, if it exists.
const defaultIdmap = "/etc/idmapd.conf"

// idmapRules returns the rules of the file of --idmap, with the domain of
// --idmap-domain if that is given. With Kerberos there is a default file, and the
// realm of the keytab is local if no other is.
func (o *serveOptions) idmapRules() (idmap.Rules, error) {
	return o.idmapRulesWith(o.kerberos.acceptor.Load())
}

// idmapRulesWith is idmapRules with Kerberos, unless a is nil.
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
	// alice of one realm is not alice of the other
	if rules.Realms = a.Realms(); len(rules.Realms) > 1 {
		return rules, fmt.Errorf("the keytab has keys of the realms %s: name those whose principals are users of this host as Local-Realms in %s",
			strings.Join(rules.Realms, ", "), o.idmapPathWith(a))
	}
	return rules, nil
}

// idmapPath returns the file with the rules, or "".
func (o *serveOptions) idmapPath() string { return o.idmapPathWith(o.kerberos.acceptor.Load()) }

// idmapPathWith is idmapPath with Kerberos, unless a is nil.
func (o *serveOptions) idmapPathWith(a *krb5.Acceptor) string {
	if o.idmapFile == "" && a != nil {
		return defaultIdmap
	}
	return o.idmapFile
}

// reloadIdmap applies the present file of --idmap, and forgets what the user
// database has answered. If the file is wrong, the rules alone stay, and the log has
// the reason.
func (o *serveOptions) reloadIdmap(log *slog.Logger) error {
	file := o.idmapPath()
	if file == "" && o.idmapDomain == "" {
		return nil // nobody asks the database
	}
	rules, err := o.idmapRules()
	if err != nil {
		for _, e := range causes(err) {
			log.Error("the rules for names stay as they were", "file", file, "err", e)
		}
		o.owners.Forget() // users may have lost groups
		return fmt.Errorf("the rules for names stay as they were:\n%w", err)
	}
	o.owners.SetRules(rules)
	log.Info("the user database is asked again for all names", "domain", rules.Domain)
	return nil
}
