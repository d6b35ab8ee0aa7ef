package config

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Load reads the file at path. env answers for ${NAME} (os.LookupEnv); a
// relative ${file:PATH} is beside the file. The error is Errors if the file
// could be read; the Config's Version is when the file came to be as it is.
func Load(path string, env func(name string) (string, bool)) (*Config, error) {
	c, _, err := LoadAfter(path, env, 0)
	return c, err
}

// LoadAfter is Load for a file that takes the place of a configuration with the
// Version before: its own is above that, also if the file is older. What is put
// back is the newest word. The files are the Config's, also of one that is in
// error: a change of any of them may be its correction.
func LoadAfter(path string, env func(name string) (string, bool), before int64) (*Config, []File, error) {
	return loadNamed(path, Lookups{Env: env}, before)
}

// LoadWithoutSecrets is Load where what is not set is no problem: a variable or a
// file that is missing stands for 64 hexadecimal digits of its own, which are good
// as a secret and as the hash of one, and for nothing else.
func LoadWithoutSecrets(path string, env func(name string) (string, bool)) (*Config, error) {
	c, _, err := loadNamed(path, Lookups{Env: env, Missing: func(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name))) }}, 0)
	return c, err
}

func loadNamed(path string, names Lookups, before int64) (*Config, []File, error) {
	l := &loader{names: names}
	root, problems, err := l.load(path)
	if err != nil {
		return nil, l.files, fmt.Errorf("read the configuration: %w", err)
	}
	if root != nil {
		problems = append(problems, l.include(path, root)...)
	}
	c, err := decode(root, problems, max(l.changed, before+1))
	if err != nil {
		return nil, l.files, err
	}
	for _, t := range []TLS{c.Server.TLS, c.Server.AdminTLS} {
		if t.CertFile != "" {
			l.files = append(l.files, Stat(t.CertFile), Stat(t.KeyFile))
		}
	}
	c.Files = l.files
	c.Records.beside(filepath.Dir(path))
	return c, c.Files, nil
}

// Parse reads a configuration's text; name stands for it in errors, which are
// always Errors. The Config's Version is 0. A text includes no files.
func Parse(name string, src []byte, lookups Lookups) (*Config, error) {
	root, problems := readTree(name, src)
	if root == nil {
		return decode(nil, problems, 0)
	}
	problems = lookups.expandAll(root)
	if root.kind == object {
		if n := root.value("include"); n != nil && len(n.items) > 0 {
			problems = append(problems, n.problem("files cannot be read here"))
		}
	}
	return decode(root, problems, 0)
}

// decode reads the tree of a configuration, in whose files problems were found
// already; root is nil if it could not be read.
func decode(root *node, problems []Problem, version int64) (*Config, error) {
	if root == nil {
		return nil, Errors(inOrder(problems))
	}
	d := newDecoder(version)
	d.problems = problems
	c := d.config(root)
	d.check()
	d.checkTeams(c)
	if len(d.problems) > 0 {
		return nil, Errors(inOrder(d.problems))
	}
	c.Warnings = inOrder(d.warnings)
	return c, nil
}

// config reads the whole file.
func (d *decoder) config(root *node) *Config {
	c := &Config{
		Server:      defaultServer(),
		Store:       defaultStore(),
		Records:     defaultRecords(),
		Enforcement: Enforce,
		Telemetry:   Telemetry{MaxLabelValues: 1000},
		Version:     d.version,
	}
	var include, plans []string
	if root.kind == object && root.value("plans") != nil { // before those who take them
		setList(d, &plans, d.plan)(root.value("plans"))
	}
	d.object(root, fields{
		"include":     setList(d, &include, func(s *string) func(*node) { return set(d, s, anyText) }),
		"plans":       func(*node) {},
		"server":      d.server(&c.Server),
		"store":       d.store(&c.Store),
		"records":     d.records(&c.Records),
		"alerts":      d.alerts(&c.Alerts),
		"enforcement": set(d, &c.Enforcement, oneOf(Enforce, Shadow, Off)),
		"telemetry":   d.telemetry(&c.Telemetry),
		"providers":   setList(d, &c.Providers, d.provider),
		"models":      setList(d, &c.Models, d.model),
		"limits":      func(n *node) { d.limitList(n, &c.Limits, gatewayPlace()) },
		"passthrough": setList(d, &c.Passthrough, d.passthrough),
		"teams":       setList(d, &c.Teams, d.team),
		"descriptors": setList(d, &c.Descriptors, d.descriptor),
	})
	return c
}

// readFile reads a file of at most limit bytes, and one more of a larger one:
// who reads the content sees that it is too large. The File is what it was
// before it was read.
func readFile(path string, limit int64) ([]byte, File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, File{Path: path}, err
	}
	defer f.Close() //nolint:errcheck // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, File{Path: path}, err
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	return content, fileOf(path, info), err
}
