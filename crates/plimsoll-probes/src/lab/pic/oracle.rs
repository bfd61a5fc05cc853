//! The motion of a particle in a magnetic field, in double precision: Boris' push (Birdsall and Langdon, 'Plasma Physics via
//! Computer Simulation', 1991, section 4-4).

use super::kernels::Way;

/// A particle: its place in the cell, 0 to 1, and its velocity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Particle {
    pub(crate) x: [f64; 3],
    pub(crate) v: [f64; 3],
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn size(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

impl Particle {
    /// Whether all numbers differ by at most `by`; a NaN is near nothing.
    pub(crate) fn is_near(&self, other: &Self, by: f64) -> bool {
        let pairs = self.x.iter().zip(&other.x).chain(self.v.iter().zip(&other.v));
        pairs.into_iter().all(|(a, b)| (a - b).abs() <= by)
    }
}

/// The allowed error of a number after some pushes: per push 16 roundings in single precision, or in half precision 4 roundings for
/// two products of eight terms each.
pub(crate) fn tolerance(way: Way, pushes: u32) -> f64 {
    let (rounding, each) = match way {
        Way::Fused => (1.0 / 16_777_216.0, 16.0),
        Way::Matrix => (1.0 / 2048.0, 4.0),
    };
    f64::from(pushes) * each * rounding
}

/// A particle after some pushes of one step each in the field of the eight corners, x, y, z of each.
pub(crate) fn push(particle: Particle, corners: &[f64; 24], (pushes, step): (u32, f64)) -> Particle {
    (0..pushes).fold(particle, |Particle { x, v }, _| {
        let x: [f64; 3] = std::array::from_fn(|k| 1.0 - (1.0 - (x[k] + step * v[k]).abs()).abs());
        let mut t = [0.0; 3];
        for (corner, field) in corners.chunks_exact(3).enumerate() {
            let far = |k: usize| corner >> k & 1 == 1;
            let weight: f64 = (0..3).map(|k| if far(k) { x[k] } else { 1.0 - x[k] }).product();
            (0..3).for_each(|k| t[k] += weight * field[k]);
        }
        let add = |a: [f64; 3], by: f64, b: [f64; 3]| std::array::from_fn(|k| a[k] + by * b[k]);
        let turned = add(v, 1.0, cross(v, t));
        Particle { x, v: add(v, 2.0 / (1.0 + dot(t, t)), cross(turned, t)) }
    })
}

/// Roots of mean squares over particles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Errors {
    /// Of |v| over what it should be, less one.
    pub(crate) speed: f64,
    /// Of the angle between velocities, radians.
    pub(crate) angle: f64,
}

impl Errors {
    pub(crate) fn between(found: &[Particle], right: &[Particle]) -> Self {
        let root = |error: fn([f64; 3], [f64; 3]) -> f64| {
            let squares = found.iter().zip(right).map(|(found, right)| error(found.v, right.v).powi(2));
            (squares.sum::<f64>() / found.len().max(1) as f64).sqrt()
        };
        let speed = |a, b| size(a) / size(b) - 1.0;
        // The cross product resolves small angles better than the scalar product.
        let angle = |a, b| size(cross(a, b)).atan2(dot(a, b));
        Self { speed: root(speed), angle: root(angle) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::stats::Rng;

    fn random(rng: &mut Rng, from: f64, to: f64) -> [f64; 3] {
        std::array::from_fn(|_| from + (to - from) * rng.uniform())
    }

    #[test]
    fn push_rotates_by_twice_the_arc_tangent_and_keeps_the_speed() {
        let mut rng = Rng::new(8);
        for _ in 0..200 {
            let (field, v) = (random(&mut rng, -0.6, 0.6), random(&mut rng, -1.0, 1.0));
            let corners = std::array::from_fn(|k| field[k % 3]);
            let before = Particle { x: random(&mut rng, 0.0, 1.0), v };
            let after = push(before, &corners, (1, 0.01));
            assert!((size(after.v) - size(v)).abs() < 1e-14);
            assert!((dot(after.v, field) - dot(v, field)).abs() < 1e-14);
            let along = dot(v, field) / dot(field, field);
            let flat = |v: [f64; 3]| -> [f64; 3] { std::array::from_fn(|k| v[k] - along * field[k]) };
            let angle = size(cross(flat(v), flat(after.v))).atan2(dot(flat(v), flat(after.v)));
            assert!((angle - 2.0 * size(field).atan()).abs() < 1e-12, "{angle}");
        }
    }

    #[test]
    fn particles_stay_in_their_cell_and_fly_straight_without_a_field() {
        let mut rng = Rng::new(9);
        for _ in 0..100 {
            let before = Particle { x: random(&mut rng, 0.0, 1.0), v: random(&mut rng, -1.0, 1.0) };
            let after = push(before, &[0.0; 24], (300, 0.01));
            assert!(after.v == before.v && after.x.iter().all(|x| (0.0..=1.0).contains(x)));
        }
    }

    #[test]
    fn errors_match_known_deviations() {
        let right = Particle { x: [0.5; 3], v: [0.6, 0.0, 0.8] };
        let longer = Particle { v: [0.606, 0.0, 0.808], ..right };
        let turned = Particle { v: [0.6, 0.01, 0.8], ..right };
        let errors = |found: Particle| Errors::between(&[found, found], &[right, right]);
        assert!((errors(longer).speed - 0.01).abs() < 1e-12 && errors(longer).angle < 1e-12);
        assert!((errors(turned).angle - 0.01).abs() < 1e-6);
        assert!(!turned.is_near(&right, 1e-3) && turned.is_near(&right, 0.011));
        assert!(!Particle { v: [f64::NAN; 3], ..right }.is_near(&right, 1.0));
    }
}
