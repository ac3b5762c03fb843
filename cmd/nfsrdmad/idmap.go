package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// idmapRules returns the rules of the file of --idmap, with the domain of
// --idmap-domain if that is given.
func (o *serveOptions) idmapRules() (rules idmap.Rules, err error) {
	if o.idmapFile != "" {
		text, err := os.ReadFile(o.idmapFile)
		if err != nil {
			return rules, fmt.Errorf("--idmap: %s cannot be read (%w): correct its name or its permissions", o.idmapFile, cli.Cause(err))
		}
		if rules, err = idmap.ParseFile(o.idmapFile, text); err != nil {
			return rules, err
		}
	}
	if o.idmapDomain != "" {
		rules.Domain = o.idmapDomain
	}
	return rules.Defaults(), nil
}

// reloadIdmap applies the present file of --idmap, and forgets what the user
// database has answered. If the file is wrong, the rules stay, and the log has the
// reason.
func (o *serveOptions) reloadIdmap(log *slog.Logger) {
	if o.owners == nil {
		return
	}
	rules, err := o.idmapRules()
	if err != nil {
		for _, e := range causes(err) {
			log.Error("the rules for names stay as they were", "file", o.idmapFile, "err", e)
		}
		return
	}
	o.owners.SetRules(rules)
	log.Info("the user database is asked again for all names", "domain", rules.Domain)
}
