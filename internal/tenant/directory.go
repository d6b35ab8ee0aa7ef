package tenant

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// maxSecret bounds what is hashed for a stranger, in bytes.
const maxSecret = 512

// Directory is all teams and keys of one configuration. It never changes: a
// reload makes another. It is safe for concurrent use.
type Directory struct {
	teams  []Team // in the order of the configuration
	byName map[string]*Team
	byID   map[string]*Key
	// byHash holds each secret under the first bytes of its hash.
	byHash map[uint64][]secret
}

// secret is the hash of one, and the key that it opens.
type secret struct {
	hash [32]byte
	key  *Key
}

// NewDirectory returns the directory of teams. It keeps no reference to the
// slices and maps that it was given. A name, id or hash that is there twice is
// an error.
func NewDirectory(teams []Team) (*Directory, error) {
	d := &Directory{
		teams:  slices.Clone(teams),
		byName: make(map[string]*Team, len(teams)),
		byID:   map[string]*Key{},
		byHash: map[uint64][]secret{},
	}
	for i := range d.teams {
		t := &d.teams[i]
		if d.byName[t.Name] != nil {
			return nil, fmt.Errorf("team %q is there twice", t.Name)
		}
		d.byName[t.Name] = t
		t.Models = maps.Clone(t.Models)
		t.Limits = slices.Clone(t.Limits)
		t.Keys = slices.Clone(t.Keys)
		for j := range t.Keys {
			k := &t.Keys[j]
			k.Team, k.Models, k.Limits = t, maps.Clone(k.Models), slices.Clone(k.Limits)
			if err := d.add(k); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

func (d *Directory) add(k *Key) error {
	if d.byID[k.ID] != nil {
		return fmt.Errorf("key %q is there twice", k.ID)
	}
	d.byID[k.ID] = k
	for _, hash := range append([][32]byte{k.SHA256}, k.Former...) {
		start := prefix(&hash)
		for _, other := range d.byHash[start] {
			if other.hash == hash {
				return fmt.Errorf("keys %q and %q have one secret", other.key.ID, k.ID)
			}
		}
		d.byHash[start] = append(d.byHash[start], secret{hash, k})
	}
	return nil
}

// Identify returns the key whose secret this is. It creates no state and does
// not allocate.
//
// How long it takes says nothing about a secret: what is looked up and compared
// is its SHA-256, of which a guess tells nobody how near it came, the lookup
// goes by the hash's first eight bytes only, and the whole hash is compared in
// constant time, also when there is no such key.
func (d *Directory) Identify(given string) (*Key, bool) {
	if given == "" || len(given) > maxSecret {
		return nil, false
	}
	var onStack [maxSecret]byte
	hash := sha256.Sum256(onStack[:copy(onStack[:], given)])
	candidates := d.byHash[prefix(&hash)]
	if len(candidates) == 0 {
		var nobody [sha256.Size]byte
		subtle.ConstantTimeCompare(hash[:], nobody[:])
		return nil, false
	}
	var found *Key
	for i := range candidates { // one, unless hashes share eight bytes
		if subtle.ConstantTimeCompare(hash[:], candidates[i].hash[:]) == 1 {
			found = candidates[i].key
		}
	}
	return found, found != nil
}

// prefix is what a hash is looked up by.
func prefix(hash *[sha256.Size]byte) uint64 { return binary.BigEndian.Uint64(hash[:8]) }

// Key returns the key with this id, or nil.
func (d *Directory) Key(id string) *Key { return d.byID[id] }

// Team returns the team of this name, or nil.
func (d *Directory) Team(name string) *Team { return d.byName[name] }

// Teams lists all teams, in the order of the configuration. It must not be
// changed.
func (d *Directory) Teams() []Team { return d.teams }
